"""Systems that the paper names as related work, as baselines. None is part of the package."""
