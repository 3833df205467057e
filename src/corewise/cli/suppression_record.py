"""What there is to say about a node's offline pods and their CPU, as a record for programs (pure)."""

from __future__ import annotations

from typing import Any

from corewise.cli.offline_reports import offer_problem, suppression_state
from corewise.cli.offline_settings import OfflineSettings
from corewise.cli.suppression_course import adjustments_left, course
from corewise.cli.suppression_explanation import Subject, formula
from corewise.vocabulary.offline_report import SuppressionReport


def record_of(subject: Subject) -> dict[str, Any]:
    """Return the machine form: amounts in milli-CPU and bytes, ratios and shares as decimal texts."""
    report = subject.node.report
    return {
        "name": subject.node.name,
        "label": subject.label,
        "state": (offer_problem(report) or suppression_state(report)) if report else "",
        "settings": _settings_record(subject.settings),
        "report": report,
        "reportUnreadable": subject.node.unreadable,
        "ageSeconds": subject.node.age,
        "stale": subject.node.stale,
        "formula": formula(report) if report else None,
        "published": {
            "batchCPUNormalizedMilli": subject.batch_cpu_milli,
            "batchMemoryBytes": subject.batch_memory,
        },
        "adjustmentsToTarget": _left(report.suppression) if report else None,
        "next": course(report.suppression, report, subject.settings.suppression.settings)
        if report and report.suppression
        else None,
        "nativeBestEffortPods": None if subject.native is None else list(subject.native),
        "tinyPods": list(subject.tiny),
        "problems": [
            {"reason": each, "message": each.text.meaning, "fix": each.text.fix} for each in subject.problems
        ],
    }


def _left(suppression: SuppressionReport | None) -> int | None:
    return None if suppression is None else adjustments_left(suppression)


def _settings_record(settings: OfflineSettings) -> dict[str, Any]:
    offer, quota = settings.oversubscription.settings, settings.suppression.settings
    return {
        "oversubscription": {
            "source": settings.oversubscription.source,
            "ratio": str(offer.ratio) if offer else None,
            "intervalSeconds": int(offer.interval) if offer else None,
        },
        "suppression": {
            "source": settings.suppression.source,
            "enabled": quota.enabled if quota else None,
            "mode": quota.mode if quota else None,
            "adjustStep": str(quota.adjust_step) if quota else None,
            "fastSuppress": quota.fast if quota else None,
            "highThreshold": str(quota.high) if quota else None,
            "lowThreshold": str(quota.low) if quota else None,
            "recoverThreshold": str(quota.recover) if quota else None,
            "adjustQuotaStep": str(quota.quota_step) if quota else None,
            "adjustPodNum": quota.pods_a_cycle if quota else None,
        },
    }
