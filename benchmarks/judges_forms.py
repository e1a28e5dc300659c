"""What was tried on the form of the model: sections of the page of judges."""

FORMS = """## Which tables are of the present model

The association of classes and the correction of differences between systems entered after most tables had been measured. Measured
again, with fewer repetitions where that is stated: `crowdppl.judges` on the nine systems, `triviaqa-v1` and `wax`, the first
simulated panel, human labels with errors and of picked items, and `crowdppl.judges` on the twelve kinds. Of panels without
systems and with at most eight classes the model is the same: one random choice each of `civilcomments`, `llmbar`, `framing`,
`cebab-aspects`, `mtbench-alttest`, `lesion` and `10k-prompts`, and of the positions of answers, has the same figures before and
after. The other methods do not depend on it. Not measured again: labels that `next` proposes, `lgbteen` and `summeval`, simulated
panels of random size and of independent judges, a system unlike the others, pairs of answers, long answers, several answers,
changes of judges, and ratings of an arena.

Other answers to the same questions count since then, where several systems answered them: `triviaqa-v1`, and simulated panels,
whose questions are alike so that they say little. No table of this page was measured again for it; a page of its own has figures
of `triviaqa-v1` and of simulated panels with and without ([widths](judges-widths.md)).

## What is attainable

Log loss of the model with the labels of all other items, by cross-validation (5 to 17 folds, at most 1,500 labels):

| panel | with 100 labels | with nearly all |
|---|--:|--:|
| triviaqa-v1 | 0.141 | 0.122 |
| civilcomments | 0.500 | 0.475 |
| llmbar | 0.234 | 0.237 |
| framing | 0.483 | 0.466 |
| cebab-aspects | 0.240 | 0.220 |
| mtbench-alttest | 0.918 | 0.865 |
| wax | 1.716 | 1.647 |
| mean | 0.605 | 0.576 |

The second column is of the first 12 random choices, on which the mean was .613 before the association of classes entered.
Nearly all labels in place of 100 lower the mean by .03 to .04. On the same choices, twenty ways to lower it were tried after the
fit: ridge regression on all verdicts, its penalty by cross-validation, has .645; pools of both, linear or of logarithms,
with weights fixed or learned on the labelled items, .606 to .612; temperature, with offsets of the classes or without, .613
and .614; mixtures with the base rates .613 to .622; frequencies of similar panels, shrunk to ours or to the base rates, .621
to .774. The best temperature in each panel by the true labels of the evaluated items, which nobody has, gives .602.

Only `wax` gains by more: with more than eight classes each verdict spoke for its own class alone. How often judges of other
families say one class where a judge says another is seen without human labels (`association`), and labels of some classes
are more reliable than those of others (`own_class`). Thirty-three forms were tried on `wax`, fourteen of them on panels of
crowds and of simulated judges. That of the lowest mean on the others was taken, 12 and 4 repetitions:

| panel, 100 labels | classes | before | with association |
|---|--:|--:|--:|
| wax | 16 | 1.777 | 1.716 |
| music-genre, four annotations an item | 10 | 0.891 | 0.773 |
| cifar10n, three annotations | 10 | 0.300 | 0.291 |
| cifar10s, five annotations | 10 | 0.274 | 0.230 |
| simulated, classes confused in groups | 12 | 0.521 | 0.443 |
| simulated, without groups | 12 | 1.364 | 1.252 |

Whether any judge named a class lowers the log loss of `wax` by a further .02 and not that of the others; it was left out.

Over half of the log loss of `wax` is of items whose class no judge named. By the number of judges who named it, and by what the
human labels contain (Laplace's approximation at twelve points of the scales, 30 random choices, mean 1.722):

| true label | share of items | log loss | part of the mean |
|---|--:|--:|--:|
| named by no judge | 0.308 | 3.146 | 0.970 |
| by up to a third | 0.341 | 1.554 | 0.530 |
| by up to two thirds | 0.182 | 0.742 | 0.135 |
| by more than two thirds | 0.169 | 0.514 | 0.087 |
| not among the human labels | 0.020 | 3.236 | 0.063 |
| once or twice | 0.105 | 2.345 | 0.246 |
| more often | 0.875 | 1.613 | 1.412 |

The probabilities are too large by little: where the largest is .6 to .8, .686 on average, it is right for .645 of the items.
Fourteen more forms were tried in the same way, relative to the present one (standard errors up to .01): the log share of the
class in all verdicts, +.001 and +.002; a scale of the prevalence of .5 or .3, +.011 and +.026, and both, +.012; the log
likelihood of the verdicts under confusion matrices of the judges, learned without human labels and shrunk to a common one,
+.011 beside the association and +.056 to +.074 in its place; whether most judges named the class, +.001; whether any did,
−.021, and combined with these, −.012 and −.002.

## Rates by weak judges

Verdicts differ less between systems than the true labels, the less the weaker the judges are: by the slope of a verdict on
the true label. `system_rate` took the verdicts as they are. The slope is now taken from the agreement of judges of different
families (Spearman's correction for attenuation), and the prior of the coefficient is narrower. By agreement the slope is .42
to .91 on the eleven panels, and larger than by the true labels on all of them: errors are correlated, and the correction
stays below what is needed. The correlation of few judges on few items is uncertain, and that of judges who guess is near 0:
the logarithm of the slope is shrunk by its standard error (half the relative one of the correlation, with items as clusters) to
that of the median panel, .63, with a standard deviation of .5 over panels. A negative correlation has .63.

Five forms were compared, before shrinking. 95% intervals, former and present; coverage in the first row is with shrinking,
without which it is .925, at the same width and error:

| panels | human labels | coverage | now | width | now | error | now | repetitions |
|---|--:|--:|--:|--:|--:|--:|--:|--:|
| weak judges | 30 | 0.859 | 0.933 | 0.299 | 0.309 | 0.085 | 0.075 | 40 |
| one judge | 30 | 0.867 | 0.883 | 0.243 | 0.239 | 0.057 | 0.055 | 20 |
| eleven kinds, without one judge | 30 | 0.984 | 0.981 | 0.184 | 0.184 | 0.032 | 0.031 | 8, 16 of weak judges |
| weak judges | 100 | 0.938 | 0.917 | 0.199 | 0.191 | 0.041 | 0.043 | 16 |
| self-preference | 100 | 0.917 | 0.917 | 0.097 | 0.097 | 0.016 | 0.018 | 16 |
| triviaqa-v1 | 100 | 1.0 | 1.0 | 0.105 | 0.103 | 0.015 | 0.017 | 8 |
| summeval, mean grades | 30 | 0.844 | 0.898 | 1.221 | 1.281 | 0.333 | 0.354 | 8 |

A scale of .5 makes intervals of the kinds narrower by a further 3%, and those of `triviaqa-v1` by 2%; .7 is that of the
higher coverage of weak judges. On the 16 repetitions of weak judges
by which it was not chosen, coverage is .938 and .958. The standard error of a coverage is .03 in most rows.

Three judges who guess, three systems of 30 answers and of equal rates, no human labels, 24 panels: the mean probability of the
system that is most probably the best was .67 without shrinking and is .61. On the first 10 panels it is .59, as with a slope of
.63 throughout, and .57 where the verdicts are taken as they are. With 200 answers a system (6 panels) it was .57 and is .48.
For weak judges with 100 human labels coverage (.917), width and error are the same with shrinking, 16 panels.

## What makes intervals wider

Of `triviaqa-v1` with 100 human labels, 12 random choices; logistic regression on the first 8. Posterior standard deviations are
those of the mean of all rates (*common*) and of rates around it (*own*).

| prior | coverage | width | error | common | own | log loss |
|---|--:|--:|--:|--:|--:|--:|
| as it is | 1.000 | 0.106 | 0.0159 | 0.0183 | 0.0236 | 0.144 |
| without effects of systems and of their rates by the judges | 1.000 | 0.094 | 0.0131 | 0.0190 | 0.0173 | 0.141 |
| coefficient of these rates 1, no other effect of systems | 0.982 | 0.090 | 0.0161 | 0.0182 | 0.0178 | 0.144 |
| scale of effects of systems .05 in place of .15 | 1.000 | 0.100 | 0.0155 | 0.0184 | 0.0215 | 0.144 |
| the same, .06, with heavier tails (spread 1.4) | 1.000 | 0.107 | 0.0156 | 0.0184 | 0.0231 | 0.144 |
| scale of the coefficient of the rates .3 in place of .7 | 1.000 | 0.101 | 0.0160 | 0.0185 | 0.0214 | 0.144 |
| mean of this coefficient .6 in place of 1, scale .5 | 1.000 | 0.105 | 0.0136 | 0.0186 | 0.0223 | 0.142 |
| scale of judges .1 in place of .3 | 0.982 | 0.110 | 0.0162 | 0.0182 | 0.0238 | 0.149 |
| scales of panel, families and consensus halved | 1.000 | 0.109 | 0.0162 | 0.0189 | 0.0241 | 0.144 |
| logistic regression, bootstrap | 0.958 | 0.089 | 0.0175 | 0.0200 | 0.0146 | 0.140 |

What all rates have in common is as certain as by logistic regression. Rates around it are not: three quarters of the difference
in their variance are due to the two effects of systems, which logistic regression does not have. Where judges treat systems
unlike each other, or are weak, these are needed. Coverage, and width in brackets, of simulated panels:

| kind | human labels | panels | as it is | without | coefficient .6 | heavier tails |
|---|--:|--:|--:|--:|--:|--:|
| weak judges | 30 | 16 | 0.896 (0.312) | 0.625 (0.256) | 0.875 (0.301) | 0.875 (0.312) |
| accuracy varies by system | 100 | 12 | 0.972 (0.092) | 0.889 (0.082) | 0.972 (0.090) | 1.000 (0.091) |
| self-preference | 100 | 20 | 0.867 (0.097) | 0.917 (0.082) | 0.900 (0.095) | 0.883 (0.097) |

A coefficient of .6 has the smaller error on `triviaqa-v1`. On 14 further panels of each of ten kinds with 30 labels it has a
higher log loss on nine, by .0007 on average, and .929 in place of .952 of the rates of good systems: it was not taken. Priors of
effects of systems do not make the intervals of this set as narrow as those of logistic regression without making those of others
too narrow.

Rates by the judges, which enter as `system_rate`, are uncertain: the more, the weaker the judges, the fewer the items, and
the more families disagree on a system. Effects of systems may have this as their scale, wide where judges are weak and narrow
on `triviaqa-v1`. *Sampling*: the variance of effects of systems is that of the prior and the squared standard error of the
rates by the errors of verdicts; *families*: that between families where it is larger; with a prior scale of .15, .08 or .05,
the last also with a scale of the coefficient that falls with 1 minus the slope of verdicts. A family that prefers a system is
seen without human labels as well: *median*, rates are medians over families; *preference*, a coefficient of how much families
differ from the median; *centred*, verdicts relative to it. Coverage, and width in brackets, on the same panels in each row:

| panels | human labels | number | as it is | sampling | families | families, .08 | families, .05, coefficient |
|---|--:|--:|--:|--:|--:|--:|--:|
| one judge | 30 | 30 | 0.900 (0.255) | 0.900 (0.259) | 0.900 (0.259) | 0.911 (0.254) | 0.911 (0.252) |
| one judge | 100 | 30 | 0.967 (0.165) | 0.944 (0.167) | 0.944 (0.167) | 0.956 (0.164) | 0.956 (0.165) |
| weak judges | 30 | 30 | 0.911 (0.309) | 0.922 (0.320) | 0.911 (0.321) | 0.933 (0.315) | 0.944 (0.319) |
| weak judges | 100 | 30 | 0.944 (0.197) | 0.956 (0.204) | 0.956 (0.204) | 0.944 (0.200) | – |
| self-preference | 100 | 30 | 0.911 (0.101) | 0.911 (0.102) | 0.922 (0.102) | 0.911 (0.100) | 0.911 (0.099) |
| triviaqa-v1 | 100 | 10 | 1.000 (0.107) | – | – | – | 1.000 (0.104) |
| triviaqa-v1 | 200 | 10 | 0.944 (0.083) | – | – | – | 0.922 (0.081) |

With `families, .05` alone those of `triviaqa-v1` have widths of .105 and .082, of which 1.000 and .933 contain the rate. On 24
panels of self-preference with 100 labels, .889 are covered as it is, with the median, and with the preference, and .903 with
verdicts that are centred; the error is .0201, .0193, .0194 and .0190. Centred verdicts raise the error on `triviaqa-v1` with 200
labels from .0172 to .0195 (10 random choices). None of these eight forms was taken: they narrow the intervals of `triviaqa-v1` by
2% where a fifth is needed, and where coverage is lowest they move it by no more than one standard error."""
