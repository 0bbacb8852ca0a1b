"""Files `.swanlab` that `swanlab` keeps of each run, online, local and offline ones, with the media beside them."""
