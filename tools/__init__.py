"""Scripts that make things for this project by hand; no part of the product and of no test."""
