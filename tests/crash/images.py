"""
What a power cut may leave of a folder.
"""

import hashlib
import os
import random
from dataclasses import dataclass

from crash.shadow import File, Folder, Shadow


@dataclass(frozen=True)
class Image:
    """
    Files as a power cut may leave them.

    Attributes:
        kind: In words.
        tree: Path below the top -> content, None for a folder.
        garbage: There are bytes in it that nobody has written.
    """

    kind: str
    tree: dict[str, bytes | None]
    garbage: bool = False

    @property
    def digest(self) -> bytes:
        """The same for the same files."""
        found = hashlib.sha256()
        for path, content in sorted(self.tree.items()):
            found.update(repr((path, content is None, len(content or b""))).encode() + (content or b""))
        return found.digest()


def subsets(count: int, most: int, rng: random.Random) -> list[tuple[int, ...]]:
    """Subsets of that many things, at most so many: none and all, each prefix, and others drawn by chance."""
    everything = tuple(range(count))
    if 2**count <= most:
        found = [tuple(n for n in everything if mask >> n & 1) for mask in range(2**count)]
        return list(dict.fromkeys([(), everything, *found]))
    found = [(), everything, *(everything[:n] for n in range(1, count))]
    found += [everything[n:] for n in range(1, count)]
    found += [everything[:n] + everything[n + 1 :] for n in everything]
    if len(found) > most:
        found = found[:2] + rng.sample(found[2:], most - 2)
    while len(found) < most:
        found.append(tuple(n for n in everything if rng.random() < 0.5))
    return list(dict.fromkeys(found))


def _variants(node: File | Folder, most: int, rng: random.Random) -> list[tuple[str, object, bool]]:
    """
    What may have become of one file or folder: in words, the content or the names, and whether it is garbage.

    First that nothing of what is open reached the disk, then that all of it did, if that is not the same.
    """
    if isinstance(node, Folder):
        return [
            (f"{len(chosen)} of {len(node.ops)} names", node.after(chosen), False)
            for chosen in subsets(len(node.ops), most, rng)
        ]
    count = len(node.open_pieces())
    found: dict[bytes, tuple[str, bool]] = {}

    def add(words: str, content: bytes, *, garbage: bool = False) -> None:
        found.setdefault(content, (words, garbage))

    add("nothing of it", node.with_pieces(()))
    add("all of it", node.with_pieces(range(count)))
    for chosen in subsets(count, most, rng):
        words = f"{len(chosen)} of {count} pieces"
        add(words, node.with_pieces(chosen))
        add(words + ", the size", node.with_pieces(chosen, full_size=True))
    old = node.base.rstrip(b"\0") or b"0" * 64 + b" 00000010 000000002 {}\n"
    for words, give in (
        ("noise", rng.randbytes),
        ("a line of text", lambda size: b"x" * (size - 1) + b"\n"),
        ("older frames", lambda size: (old * (size // len(old) + 1))[:size]),
    ):
        for chosen in subsets(count, 2, rng):
            content = node.with_pieces(chosen, full_size=True, garbage=give)
            add(f"{len(chosen)} of {count} pieces, {words}", content, garbage=True)
    return [(words, content, garbage) for content, (words, garbage) in found.items()]


def images(shadow: Shadow, most: int, seed: int, *, garbage: bool = True) -> list[Image]:
    """
    What a power cut may leave, at most so many images: nothing that was not synced, all of it, and mixtures.

    Args:
        shadow: What is durable, and what is not.
        most: How many images at most.
        seed: Decides which, where there are more.
        garbage: Include bytes that nobody has written.
    """
    rng = random.Random(seed)
    moving = [node for node in shadow.nodes() if node.ops]
    choices = [[each for each in _variants(node, max(8, most), rng) if garbage or not each[2]] for node in moving]
    lost = [0] * len(moving)
    kept = [min(1, len(list_) - 1) for list_ in choices]
    picks = [tuple(lost), tuple(kept)]
    for others in (kept, lost):
        for place, list_ in enumerate(choices):
            picks += [(*others[:place], n, *others[place + 1 :]) for n in range(len(list_))]
    picks += [tuple(rng.randrange(len(list_)) for list_ in choices) for _ in range(most if len(choices) > 1 else 0)]
    picks = list(dict.fromkeys(picks))
    if len(picks) > most:
        picks = picks[:2] + rng.sample(picks[2:], most - 2)
    found: dict[bytes, Image] = {}
    for pick in picks:
        chosen = [list_[n] for list_, n in zip(choices, pick, strict=True)]
        became = {id(node): value for node, (_, value, _) in zip(moving, chosen, strict=True)}
        kind = "; ".join(words for words, _, _ in chosen) or "nothing was open"
        image = Image(kind, _tree(shadow.root, became, ""), any(each[2] for each in chosen))
        found.setdefault(image.digest, image)
    return list(found.values())


def _tree(folder: Folder, became: dict[int, object], above: str) -> dict[str, bytes | None]:
    tree: dict[str, bytes | None] = {}
    for name, node in became.get(id(folder), folder.base).items():
        path = above + name
        if isinstance(node, Folder):
            tree[path] = None
            tree.update(_tree(node, became, path + os.sep))
        else:
            tree[path] = became.get(id(node)) if id(node) in became else node.durable()
    return tree


def lost(shadow: Shadow) -> Image:
    """The image in which nothing is left that no sync has covered."""
    return Image("all lost", _tree(shadow.root, {}, ""))


def lay_out(image: Image, top: str) -> None:
    """Make the files of an image in an empty folder."""
    for path, content in sorted(image.tree.items()):
        where = os.path.join(top, path)
        if content is None:
            os.mkdir(where, 0o700)
        else:
            with open(os.open(where, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as handle:
                handle.write(content)
