"""Claims of the paper's supplement in our own words."""

from __future__ import annotations

from typing import Final

from studies.reproduce.claim import Claim

__all__ = ["MOVIES", "SUPPLEMENT"]

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
