"""Four made-up stays in the publisher's layout, for examples and tests."""

from __future__ import annotations

from pathlib import Path

__all__ = ["write_example"]


def write_example(folder: Path) -> Path:
    """Write patient, hospital, lab and medication tables of nobody into a folder.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as name:
    ...     sorted(path.name for path in write_example(Path(name)).iterdir())
    ['hospital.csv', 'lab.csv', 'medication.csv', 'patient.csv']
    """
    for name, lines in TABLES.items():
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    return folder


TABLES = {
    "patient": (
        "patientunitstayid,patienthealthsystemstayid,gender,hospitalid,uniquepid",
        "11,1,Female,59,002-1",
        "12,1,Female,59,002-1",
        "13,2,Male,60,002-2",
        "14,3,Male,60,002-3",
    ),
    "hospital": ("hospitalid,numbedscategory,teachingstatus,region", "59,<100,f,Midwest", "60,,t,"),
    "lab": (
        "labid,patientunitstayid,labresultoffset,labtypeid,labname,labresult",
        "1,11,5,1,creatinine,1.0",
        "2,12,5,1,creatinine,1.1",
        "3,13,5,1,lactate,2.0",
    ),
    "medication": (
        "medicationid,patientunitstayid,drugordercancelled,drugname,drughiclseqno,dosage",
        "1,11,No,ACETAMINOPHEN 325 MG PO TABS,1866,1",
        "2,12,No,,1866,1",
        "3,13,No,TYLENOL,1866,1",
        "4,13,No,,182,1",
        "5,13,No,acetaminophen,1866,1",
        "6,13,Yes,HEPARIN,2810,1",
    ),
}
