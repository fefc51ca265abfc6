"""A sum of integers that a server learns without learning any summand: double masking after Bonawitz et al. 2017.

In the order of the protocol: every entity enrols with `Keys` (their public halves make the roster of the `Terms`), then

1. `share_secrets`: shares of the two secrets behind its masks, under seal for each holder;
2. `mask`: its numbers under a self-mask and one mask per other entity that shared;
3. `answer`: its shares of the survivors' self-masks and of the drop-outs' keys, for one list of survivors only;
4. the server: `add_masked`, then `unmask`.

Pure: keys, bytes and arrays in, messages and arrays out; no file, no network, and no randomness but in `Keys.new`. The
primitives (X25519, HKDF-SHA256, ChaCha20, ChaCha20-Poly1305) are those of `cryptography`. What is promised against
whom, with the proof, is in docs/reference/secure_sum.md.
"""

from twofold.secure_sum.keys import Keys, PublicKeys
from twofold.secure_sum.masking import mask
from twofold.secure_sum.messages import MaskedMessage, SharesMessage, UnmaskMessage
from twofold.secure_sum.sharing import answer, check_shares, share_secrets
from twofold.secure_sum.terms import Terms, honest_in_any_sum, least_threshold
from twofold.secure_sum.unmasking import Opened, add_masked, check_answer, unmask

__all__ = [
    "Keys",
    "MaskedMessage",
    "Opened",
    "PublicKeys",
    "SharesMessage",
    "Terms",
    "UnmaskMessage",
    "add_masked",
    "answer",
    "check_answer",
    "check_shares",
    "honest_in_any_sum",
    "least_threshold",
    "mask",
    "share_secrets",
    "unmask",
]
