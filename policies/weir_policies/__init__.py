"""The policies of Weir: the model and the policies that decide on it. Pure values in and out."""
