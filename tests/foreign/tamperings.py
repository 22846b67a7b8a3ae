"""What is done to a log, one thing at a time. Each names the questions that bring it to light: a verifier that asks none of them cannot see it."""

import hashlib

from evidence import (
    all_entries, body, copied, first_bundle, flipped, flipped_hash, lines, read_entries, root_of, with_body, with_lines, write_entries,
)


def tamperings(good, stolen, stranger, other, scratch):
    """(name, questions, evidence) for each; `stolen` is the log's own key, `stranger` somebody's of the same name, `other` another log's."""
    origin, size, root = body(good.note)
    old_origin, old_size, old_root = body(good.old)

    def tiles(name, change):
        return copied(good.tiles, scratch / name.replace(" ", "-"), change)

    def edit_entry(d):
        path = first_bundle(d)
        entries = read_entries(path)
        entries[5] = entries[5].replace(b'"outcome":"ok"', b'"outcome":"no"', 1)
        assert entries != read_entries(path)
        write_entries(path, entries)

    def swap_entries(d):
        path = first_bundle(d)
        entries = read_entries(path)
        entries[5], entries[6] = entries[6], entries[5]
        write_entries(path, entries)

    def drop_entry(d):
        path = first_bundle(d)
        write_entries(path, [entry for n, entry in enumerate(read_entries(path)) if n != 5])

    def edit_tile(d):
        path = d / "tile/0/000"
        data = bytearray(path.read_bytes())
        data[32 * 5] ^= 1
        path.write_bytes(data)

    def edit_entry_and_tile(d):
        edit_entry(d)
        path = d / "tile/0/000"
        data = bytearray(path.read_bytes())
        data[32 * 5 : 32 * 6] = hashlib.sha256(b"\x00" + read_entries(first_bundle(d))[5]).digest()
        path.write_bytes(data)

    # History rewritten as a whole by somebody who has the log's key: everything in it fits together.
    rewritten = all_entries(good.tiles)
    rewritten[1] = rewritten[1].replace(b'"outcome":"ok"', b'"outcome":"no"', 1)
    assert rewritten != all_entries(good.tiles)
    forged_root = root_of(rewritten)
    by_thief = stolen.sign(size, forged_root)

    yield "another size under the old signature", "checkpoint", good.but(note=with_body(good.note, size=size + 1))
    yield "another root under the old signature", "checkpoint", good.but(note=with_body(good.note, root=forged_root))
    yield "a bit of the signature changed", "checkpoint", good.but(note=with_lines(good.note, [flipped(line) for line in lines(good.note)]))
    yield "signed by a stranger", "checkpoint", good.but(note=stranger.sign(size, root))
    yield "signed by a stranger under the key's id", "checkpoint", good.but(note=stranger.sign(size, root, stolen.id))
    yield "the head of another log", "checkpoint", good.but(note=other.note)
    yield "no signature", "checkpoint", good.but(note=good.note.split("\n\n")[0] + "\n\n")
    yield "an entry edited", "inclusion", good.but(leaf=good.leaf.replace(b'"outcome":"ok"', b'"outcome":"no"', 1) + b" ")
    yield "an entry of another log", "inclusion", good.but(leaf=other.leaf)
    yield "another place in the log", "inclusion", good.but(index=good.index ^ 1)
    yield "a proof cut short", "inclusion", good.but(proof=good.proof[:-1])
    yield "a proof with a hash more", "inclusion", good.but(proof=good.proof + good.proof[-1:])
    yield "a hash of the proof changed", "inclusion", good.but(proof=[flipped_hash(good.proof[0])] + good.proof[1:])
    yield "a proof without hashes", "inclusion", good.but(proof=[])
    yield "a hash of the consistency proof changed", "consistency", good.but(consistency=[flipped_hash(good.consistency[0])] + good.consistency[1:])
    yield "a consistency proof cut short", "consistency", good.but(consistency=good.consistency[:-1])
    yield "history rewritten under the stolen key", "consistency history", good.but(note=by_thief)
    yield "an older history rewritten under the stolen key", "consistency history", good.but(old=stolen.sign(old_size, flipped_hash(old_root)))
    yield "a row edited in the database", "entries tiles", good.but(tiles=tiles("a row", edit_entry))
    yield "two rows exchanged", "entries tiles", good.but(tiles=tiles("two rows", swap_entries))
    yield "a row removed", "entries tiles", good.but(tiles=tiles("no row", drop_entry))
    yield "a row and its hash edited", "entries tiles", good.but(tiles=tiles("a row and hash", edit_entry_and_tile))
    yield "a hash in a tile edited", "tiles", good.but(tiles=tiles("a tile", edit_tile))
    witness_line = next(line for line in lines(good.cosigned) if line.split(" ")[1] != origin)
    own = [line for line in lines(good.cosigned) if line != witness_line]
    yield "a bit of the cosignature changed", "cosigned", good.but(cosigned=with_lines(good.cosigned, own + [flipped(witness_line)]))
    yield "its time moved", "cosigned", good.but(cosigned=with_lines(good.cosigned, own + [flipped(witness_line, 11)]))
    yield "no cosignature", "cosigned", good.but(cosigned=with_lines(good.cosigned, own))
    yield "the cosignature of another head", "cosigned", good.but(cosigned=with_lines(by_thief, lines(by_thief) + [witness_line]))
