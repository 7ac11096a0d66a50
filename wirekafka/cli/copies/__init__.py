"""Commands about copies of data: mirrors of other clusters."""
