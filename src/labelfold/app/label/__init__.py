"""The labelling page: which row to ask next, what the answers say, and a map that moves with them."""
