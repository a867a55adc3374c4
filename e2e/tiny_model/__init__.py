"""A Llama small enough to make on the spot: random weights, own tokenizer, under 2 MB."""
