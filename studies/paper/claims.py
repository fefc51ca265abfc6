"""Every claim of the paper's experiments in our own words, where it stands, and the figure that answers it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

__all__ = ["CLAIMS", "MOVIES", "SUPPLEMENT", "Claim", "claims_of"]


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One statement that can be true or false.

    Parameters
    ----------
    key : str
        Short name.
    place : str
        Where the paper says it; for a control of ours, that it is one.
    words : str
        What is said, in our words.
    figure : str
        The figure whose results answer it.
    recorded : str
        The authors' recorded values about it, if any.
    kind : {"paper", "control"}
        A control is ours: it shows that we measure what they measured, or what noise alone gives.
    """

    key: str
    place: str
    words: str
    figure: str
    recorded: str = "none recorded"
    kind: Literal["paper", "control"] = "paper"


SUPPLEMENT: Final = (
    Claim(
        key="objective-falls-with-epsilon",
        place="supplement, Experiment 1",
        words="As ε grows, the private k-means objective falls towards that of k-means.",
        figure="exp1",
        recorded="k = 100: k-means 4.957e7; private 5.357e7 at ε = .01, 5.079e7 at .1, 5.056e7 at 1",
    ),
    Claim(
        key="objective-falls-as-epsilon-decreases",
        place="supplement, caption of the first figure of Experiment 1",
        words="As ε decreases, private k-means approaches k-means (the caption; the text says the opposite).",
        figure="exp1",
        recorded="k = 100: 5.056e7 at ε = 1, 5.079e7 at .1, 5.357e7 at .01: it rises as ε decreases",
    ),
    Claim(
        key="algorithm-is-private",
        place="supplement, caption of private_prototypes",
        words="The algorithm of the prototypes is ε-DP overall.",
        figure="exp1",
    ),
    Claim(
        key="larger-k-not-better",
        place="supplement, Experiment 1",
        words="A larger k does not necessarily help private k-means.",
        figure="exp1",
    ),
    Claim(
        key="centres-repeat",
        place="supplement, Experiment 1",
        words="For larger k the private algorithm repeats centres instead of overfitting, and its objective stalls.",
        figure="exp1",
    ),
    Claim(
        key="more-entities-better",
        place="supplement, number of entities",
        words="With more entities the factorization converges to a lower error.",
        figure="entities",
    ),
    Claim(
        key="because-more-observations",
        place="supplement, number of entities",
        words="That is because more observations approximate V.",
        figure="entities",
    ),
    Claim(
        key="random-beats-kmeans-all-ranks",
        place="supplement, Experiment 2",
        words="As k grows, random exemplars beat k-means for every ℓ.",
        figure="supplement-k",
    ),
    Claim(
        key="private-good-over-k",
        place="supplement, Experiment 2",
        words="Private k-means does well over a wide range of k.",
        figure="supplement-k",
    ),
    Claim(
        key="epsilons-converge",
        place="supplement, Experiment 2",
        words="As k grows, private k-means reaches the same error for every ε.",
        figure="supplement-k",
    ),
    Claim(
        key="behaviour-similar",
        place="section 5.3, footnote",
        words="With k from 10 to 300 and ℓ from 20 to 80 methods behave alike.",
        figure="supplement-k",
    ),
    Claim(
        key="stays-competitive",
        place="supplement, Experiment 2, caption",
        words="As k and ℓ grow, random and private exemplars stay competitive.",
        figure="supplement-k",
    ),
    Claim(
        key="clearer-for-small-k",
        place="supplement, Experiment 2",
        words="Differences between the methods are clearer for small k.",
        figure="supplement-l",
    ),
    Claim(
        key="large-k-approaches-mf",
        place="supplement, Experiment 2",
        words="For large k, random and private exemplars approach the full factorization.",
        figure="supplement-l",
    ),
    Claim(
        key="private-better-large-rank",
        place="supplement, Experiment 2, caption",
        words="Private methods are superior for large ℓ.",
        figure="supplement-l",
    ),
)
MOVIES: Final = (
    Claim(
        key="datasets-similar",
        place="section 5.4 and supplement, MovieLens",
        words="Results on eICU and MovieLens are similar.",
        figure="movielens-rmse",
        recorded="test RMSE, ℓ = 10: eICU centralised 4.67 and private 4.40; MovieLens 2.79 and 2.815",
    ),
    Claim(
        key="centralised-lowest-train",
        place="supplement, MovieLens, panel a",
        words="The global non-private model has a lower training error than individual and private models.",
        figure="movielens-train",
    ),
    Claim(
        key="centralised-lowest",
        place="supplement, MovieLens, panel b",
        words="The global non-private model has a lower test error than individual and private models.",
        figure="movielens-rmse",
        recorded="centralised 2.79 to 2.68, individual 2.815 to 3.03, private 2.815 to 3.04",
    ),
    Claim(
        key="prototypes-beat-individual",
        place="supplement, MovieLens",
        words="Recommendations of the prototype model are better than those of individual models.",
        figure="movielens-rank",
        recorded="mean rank at ℓ = 10: private .141, individual .157; at ℓ = 50: .190 and .208",
    ),
    Claim(
        key="privacy-deteriorates",
        place="supplement, MovieLens, caption",
        words="Privacy costs something against the centralised model.",
        figure="movielens-rank",
        recorded="mean rank at ℓ = 10: centralised .130, private .141",
    ),
    Claim(
        key="small-budget-suffices",
        place="supplement, MovieLens",
        words="With a small privacy budget (ε = 0.1) entities share what they know and recommend better.",
        figure="movielens-rank",
        recorded="mean rank at ℓ = 10: private .141, individual .157",
    ),
)


def claims_of(figure: str) -> tuple[Claim, ...]:
    """Claims that a figure answers.

    Examples
    --------
    >>> [claim.key for claim in claims_of("noise-control")]
    ['noise-is-chance']
    """
    return tuple(claim for claim in CLAIMS if claim.figure == figure)


_SYNTHETIC: Final = (
    Claim(
        key="penalty-hardly-matters",
        place="section 5, first paragraph",
        words="Results hardly change with the penalty λ from 0.01 to 10.",
        figure="movielens-lambda",
    ),
    Claim(
        key="mf-lowest",
        place="section 5.3, Fig. 1a",
        words="Without privacy, factorizing all the data has the lowest error.",
        figure="fig1a",
        recorded="k = 100, ℓ = 40 to 120: MF .964 to .876, k-random .969 to .892, k-means .978 to .944",
    ),
    Claim(
        key="random-second",
        place="section 5.3, Fig. 1a",
        words="Random users as exemplars come second, before k-means.",
        figure="fig1a",
        recorded="ℓ = 100: MF .898, k-random .914, k-means .951",
    ),
    Claim(
        key="differences-small",
        place="section 5.3",
        words="The data has no clusters, the worst case for k-means, and still the three methods differ little.",
        figure="fig1a",
        recorded="at most .069 apart (ℓ = 120)",
    ),
    Claim(
        key="none-is-private",
        place="section 5.3",
        words="None of these three methods guarantees privacy.",
        figure="fig1a",
    ),
    Claim(
        key="mf-lowest-over-k",
        place="section 5.3, Fig. 1b",
        words="Over k too, factorizing all the data has the lowest error.",
        figure="fig1b",
    ),
    Claim(
        key="random-second-over-k",
        place="section 5.3, Fig. 1b",
        words="Over k too, random users as exemplars come second, before k-means.",
        figure="fig1b",
    ),
    Claim(
        key="kmeans-falls-behind",
        place="section 5.3, Fig. 1b",
        words="For larger k, k-means falls behind random exemplars.",
        figure="fig1b",
    ),
    Claim(
        key="kmeans-overfits",
        place="section 5.3",
        words="The reason: k-means overfits to outliers at large k, while random exemplars get better as they approach "
        "all of the data.",
        figure="fig1b",
    ),
    Claim(
        key="larger-epsilon-better",
        place="section 5.3, Fig. 1c",
        words="At k = 10, a larger ε gives a lower error.",
        figure="fig1c",
    ),
    Claim(
        key="private-like-nonprivate",
        place="section 5.3, Fig. 1c",
        words="At k = 10, private and non-private k-means differ little.",
        figure="fig1c",
    ),
    Claim(
        key="epsilon-hardly-matters-over-factors",
        place="section 5.3, Fig. 1c",
        words="At k = 10, a smaller ε does not hurt the reconstruction significantly.",
        figure="fig1c",
    ),
    Claim(
        key="private-beats-kmeans",
        place="section 5.3, Fig. 1d",
        words="For large k, the private methods are significantly better than non-private k-means.",
        figure="fig1d",
        recorded="k = 100, ℓ = 100: private .907, k-means .951",
    ),
    Claim(
        key="noise-regularizes",
        place="section 5.3",
        words="Hypothesis: the noise of private and random exemplars acts as a regularizer and avoids overfitting.",
        figure="fig1d",
    ),
    Claim(
        key="random-needs-more-noise",
        place="section 5.3",
        words="Random exemplars cannot be made private directly: they range over the data, so the noise would be "
        "excessive.",
        figure="fig1d",
    ),
    Claim(
        key="epsilon-hardly-matters",
        place="section 5.3, Fig. 1d",
        words="Over k too, a smaller ε does not hurt the reconstruction significantly.",
        figure="fig1d",
        recorded="k = 100, ε = .05: .969, .950, .930, .907, .884, the MF values plus .005 to .009",
    ),
    Claim(
        key="smallest-epsilon-equal",
        place="section 5.3, Fig. 1d",
        words="For larger k even the smallest ε does equally well, because noise averages over many samples.",
        figure="fig1d",
    ),
    Claim(
        key="hundredth-for-half",
        place="section 5.3, Fig. 1d",
        words="One can have 0.01-DP instead of 0.5-DP for a minimal loss.",
        figure="fig1d",
    ),
)
_HOSPITALS: Final = (
    Claim(
        key="individual-train-lower",
        place="section 5.4, eICU panel a",
        words="On the training data individual models have a lower error than the joint one.",
        figure="eicu-train",
        recorded="ℓ = 10: individual 1.25, centralised 1.98; ℓ = 50: .57 and 1.09",
    ),
    Claim(
        key="federated-train-like-individual",
        place="section 5.4, eICU panel a",
        words="The federated model's training error is comparable to that of individual models.",
        figure="eicu-train",
        recorded="ℓ = 10: private 1.27, individual 1.25; ℓ = 50: .79 and .57",
    ),
    Claim(
        key="individual-test-like-joint",
        place="section 5.4, eICU panel b",
        words="On held-out entries individual models and the joint one are comparable.",
        figure="eicu-rmse",
        recorded="ℓ = 10: individual 4.44, centralised 4.67; ℓ = 50: 6.13 and 6.28",
    ),
    Claim(
        key="individual-overfits",
        place="section 5.4",
        words="So the low training error of individual models is overfitting.",
        figure="eicu-rmse",
        recorded="individual, train against test: 1.25 and 4.44 at ℓ = 10, .57 and 6.13 at ℓ = 50",
    ),
    Claim(
        key="federated-generalizes",
        place="section 5.4, eICU panel b",
        words="The federated model generalizes: it has the lowest error on held-out entries.",
        figure="eicu-rmse",
        recorded="private 4.40, 4.81, 5.18, 5.50, 5.62, the lowest at every ℓ",
    ),
    Claim(
        key="shared-matrix-and-noise-help",
        place="section 5.4",
        words="Hypothesis: the shared item matrix helps to generalize, and noisy prototypes discourage overfitting.",
        figure="eicu-rmse",
    ),
    Claim(
        key="federated-best-rank",
        place="section 5.4, eICU panel c",
        words="The federated model ranks best.",
        figure="eicu-rank",
        recorded="private .068 to .095, centralised .093 to .189, individual .172 to .268",
    ),
    Claim(
        key="rank-follows-error",
        place="section 5.4",
        words="The ranking is consistent with the error on held-out entries.",
        figure="eicu-rank",
    ),
    Claim(
        key="every-hospital-gains",
        place="section 5.4",
        words="Each hospital improves its predictions by what others know.",
        figure="eicu-rank",
    ),
    Claim(
        key="without-compromising-patients",
        place="section 5.4",
        words="That happens without compromising patients: the release is ε-private at ε = 0.1.",
        figure="eicu-rank",
    ),
    Claim(
        key="demo-same-order",
        place="section 5.4, on the open demo",
        words="The order of the three models, on the patients of the open eICU demo.",
        figure="eicu-demo",
        recorded="mean rank on the full data: private .068, centralised .093, individual .172 at ℓ = 10",
    ),
    Claim(
        key="full-same-order",
        place="section 5.4, on the full tables",
        words="The order of the three models, on the credentialed eICU tables themselves.",
        figure="eicu-full",
        recorded="mean rank: private .068, centralised .093, individual .172 at ℓ = 10",
    ),
)
_CONTROLS: Final = (
    Claim(
        key="we-measure-the-same",
        place="control: the recorded centralised values",
        words="Our pooled factorization gives the recorded centralised test error and rank within 2%.",
        figure="movielens-rmse",
        recorded="ℓ = 10: RMSE 2.79, mean rank .130",
        kind="control",
    ),
    Claim(
        key="noise-does-the-same",
        place="control: the recorded procedure",
        words="In the recorded procedure prototypes do not matter: noise in their place does as well.",
        figure="movielens-rank",
        recorded="private .141 at ℓ = 10",
        kind="control",
    ),
    Claim(
        key="noise-is-chance",
        place="control: Algorithm 2 with noise for prototypes",
        words="With frozen item factors, prototypes of pure noise rank like chance: 0.5 within 0.02.",
        figure="noise-control",
        kind="control",
    ),
    Claim(
        key="pooled-as-ratings",
        place="control: MovieLens as ratings",
        words="Counting observed ratings only, the pooled model errs by at most 0.877 stars at ℓ = 20.",
        figure="masked-truth",
        kind="control",
    ),
    Claim(
        key="federated-beats-individual-ratings",
        place="supplement, MovieLens, asked of ratings",
        words="Read as ratings, private prototypes predict better than individual models.",
        figure="masked-truth",
        kind="control",
    ),
    Claim(
        key="some-private-beats-individual",
        place="control: every system",
        words="Read as ratings, some private system predicts better than individual models.",
        figure="systems",
        kind="control",
    ),
    Claim(
        key="two-rounds-cheaper",
        place="sections 3 and 4",
        words="Two rounds need less communication than iterative federated factorization.",
        figure="cost",
    ),
    Claim(
        key="peers-alike",
        place="control: other libraries",
        words="Our pooled factorization predicts and ranks as well as implicit, LensKit and cmfrec on the same split.",
        figure="comparison",
        kind="control",
    ),
)
#: In the order of the paper, then our controls.
CLAIMS: Final = (*_SYNTHETIC, *_HOSPITALS, *SUPPLEMENT, *MOVIES, *_CONTROLS)
