"""What a quorum says in a few short stories has not changed. A change on purpose: `python -m tests.raft.stories`."""

import pytest
from tests.raft.stories import FOLDER, STORIES, tell


@pytest.mark.parametrize("name", STORIES)
def test_a_story_is_told_as_before(name: str) -> None:
    assert tell(name) == (FOLDER / f"{name}.txt").read_text()


def test_every_file_has_a_story() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(STORIES)
