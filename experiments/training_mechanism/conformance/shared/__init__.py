"""What several pages of this topic hold their mechanisms against."""
