"""What a kernel is, from its name and from the operator that ran it: rules, types, kinds."""
