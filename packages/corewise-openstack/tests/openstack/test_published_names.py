"""The names of classes and traits are those that OpenStack publishes."""

from __future__ import annotations

import os_resource_classes
import os_traits

from corewise_openstack.vocabulary.placement import DISK_GB, HYPER_THREADING_TRAIT, MEMORY_MB, PCPU, VCPU


def test_our_classes_are_standard_ones() -> None:
    assert {VCPU, PCPU, MEMORY_MB, DISK_GB} <= set(os_resource_classes.STANDARDS)


def test_the_trait_of_hyperthreads_is_a_standard_one() -> None:
    assert HYPER_THREADING_TRAIT in os_traits.get_traits()
