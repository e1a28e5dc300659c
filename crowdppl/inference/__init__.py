"""From annotations and a model to a posterior: the engines EM, SVI, Gibbs and NUTS, and what they share."""
