"""Tuning a picker: by name, live, and never by a bad value."""

from __future__ import annotations

from dataclasses import fields

import pytest

from tidegate.domain.pick.settings import DEFAULT, TUNABLES, PickSettings, shown, tuned


def test_every_setting_has_a_tunable_with_its_default() -> None:
    assert len(TUNABLES) == len(fields(PickSettings))
    assert {t.name: t.default for t in TUNABLES} == shown(DEFAULT)


def test_fields_by_name_change_settings_and_others_are_left_to_others() -> None:
    settings, refused = tuned(DEFAULT, {"pick.price": "7", "fit.safety": "1.5", "load.vram": "x"}, DEFAULT)
    assert (settings.price, settings.fit_safety, refused) == (7.0, 1.5, {})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pick.policy", "magic"),
        ("pick.price", "-1"),
        ("pick.price", "nan"),
        ("pick.prefill_tokens_per_second", "0"),
        ("pick.step_tokens", "1.5"),
        ("fit.safety", ""),
    ],
)
def test_a_bad_value_is_refused_and_the_last_one_stays(name: str, text: str) -> None:
    last = PickSettings(policy="weighted_sum", price=5.0, fit_safety=2.0, step_tokens=99)
    settings, refused = tuned(DEFAULT, {name: text}, last)
    assert list(refused) == [name]
    assert shown(settings)[name] == shown(last)[name]
