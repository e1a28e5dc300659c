"""What an annotation model is: the contract, the Pyro program that follows from it, conjugate updates and networks."""
