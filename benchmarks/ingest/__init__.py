"""What it takes to remember messages, besides the model."""
