"""Texts of every script for comparing SQL with Python: every block, and seeded mixtures."""

from __future__ import annotations

import random
import unicodedata

WRITTEN = [
    "Plain ASCII: What did we do about ERR_4071?",
    "İstanbul'da IĞDIR, ısı ve İİ",
    "ΟΔΥΣΣΕΥΣ ὈΔΥΣΣΕΎΣ ᾈ ᾼ ς",
    "한국어 \u1112\u1161\u11ab\u1100\u1173\u11af \uac00\u11a7 \u115f\u1160",
    "ﬁnancial oﬄine ĳ Ǆ ǅ ﷺ ㎢ ½ ①",
    "ＦＵＬＬ－ｗｉｄｔｈ　ﾊﾟﾋﾟﾌﾟ １２３",
    "👩‍💻 👨‍👩‍👧‍👦 🇪🇺 ✈️ 1️⃣",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𐐀𐐨 𞤀𞤢 𠀀𠀁 𝕏",
    "Straße ẞ Ærø Łódź Đà Nẵng Ångström Å K Ω",
    "a\u0328\u0301 a\u0301\u0328 q\u0307\u0323 o\u031b\u0309",
    "हिन्दी தமிழ் ภาษาไทย ລາວ မြန်မာ ខ្មែរ བོད་",
    "\u1e031 \u0378\u0301 \U0001fae8 \U00011f00 \ue000 \ufdd0 \u200d\ufeff\u00ad",
]


def corpus(seed: int = 14, mixtures: int = 1000) -> list[str]:
    """The written texts, the code points of the planes in use, and `mixtures` random texts."""
    rng = random.Random(seed)
    points = [code for code in range(1, 0x110000) if not 0xD800 <= code <= 0xDFFF]
    known = [code for code in points if unicodedata.category(chr(code)) not in ("Cn", "Co")]
    marks = [code for code in known if unicodedata.category(chr(code)).startswith("M")]

    def cluster() -> str:
        return chr(rng.choice(known)) + "".join(
            chr(rng.choice(marks)) for _ in range(rng.randint(0, 4))
        )

    def neighbours() -> str:
        middle = rng.randrange(len(known))
        near = known[max(0, middle - 40) : middle + 40]
        return "".join(chr(rng.choice(near)) + rng.choice(["", "", " "]) for _ in range(30))

    def jamo() -> str:
        return "".join(
            chr(rng.choice([rng.randrange(0x1100, 0x1200), rng.randrange(0xAC00, 0xAC80)]))
            for _ in range(20)
        )

    texts = list(WRITTEN)
    # a letter after each keeps marks apart; planes 3 to 13, 15 and 16 hold nothing
    listed = [code for code in points if code < 0x20000 or 0xE0000 <= code < 0xE0200]
    listed += range(0x20000, 0x32000, 16)  # Han is one large block
    texts += [
        "q ".join(map(chr, listed[start : start + 256])) for start in range(0, len(listed), 256)
    ]
    for _ in range(mixtures):
        kind = rng.random()
        if kind < 0.4:
            texts.append("".join(cluster() for _ in range(rng.randint(1, 20))))
        elif kind < 0.6:
            texts.append("".join(chr(rng.choice(known)) for _ in range(rng.randint(1, 40))))
        elif kind < 0.9:
            texts.append(neighbours())
        else:
            texts.append(jamo())
    return texts
