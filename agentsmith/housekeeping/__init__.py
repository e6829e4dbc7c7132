"""What only one process at a time does for all: the sweeps that repair stuck tickets; and each machine's clean-up."""
