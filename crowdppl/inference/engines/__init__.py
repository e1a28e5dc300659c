"""The engines: EM, SVI, Gibbs sampling and NUTS, with the steps, transformations and checks that are theirs."""
