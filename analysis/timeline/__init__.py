"""What happened when: one step in lanes, frames folded into trees, samples over time."""
