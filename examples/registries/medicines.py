"""The medicines that the registries list: the same for a number, whatever asks for it."""

import random
from typing import Any

SUBSTANCES = ("amoxicillin", "atorvastatin", "ibuprofen", "insulin", "losartan", "metformin", "omeprazole")
ENDINGS, STRENGTHS = ("ex", "il", "on", "um"), (5, 10, 50, 250)
FORMS = ("tablet", "capsule", "syrup", "vial")
HOLDERS = ("Aurora Labs", "Borealis Pharma", "Cordillera SA", "Delta Health", "Estuary Bio")
GONE, FAILING = 2_500, 1_000  # of that many pages of India, one is missing, and one fails at first


def medicine(country: str, number: int) -> dict[str, Any]:
    """Return one medicine of a country's registry."""
    rng = random.Random(f"{country}{number}")
    substance = rng.choice(SUBSTANCES)
    return {
        "code": f"{country}-{number:07d}",
        "name": f"{substance[:4].title()}{rng.choice(ENDINGS)} {rng.choice(STRENGTHS)} mg",
        "substance": substance,
        "form": rng.choice(FORMS),
        "holder": rng.choice(HOLDERS),
    }


def is_gone(number: int) -> bool:
    """Tell whether the page of a medicine of India does not exist."""
    return number % GONE == GONE - 1


def fails_at_first(number: int) -> bool:
    """Tell whether the first request for a medicine of India fails with a 500."""
    return number % FAILING == FAILING // 2
