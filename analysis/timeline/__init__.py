"""Views over time: one step in lanes, frames folded into trees, and samples over time."""
