"""The quantization pages: what fewer bits keep of a number, and what they save. One folder each."""
