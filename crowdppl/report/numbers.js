// The page of numbers is markup: there is nothing to draw.
