// Checks a log with golang.org/x/mod/sumdb, whose authors wrote the formats. Reads a list of jobs as JSON, answers a list of errors; an empty
// one is a good answer.
package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

type job struct {
	Do, Vkey, Note, Old, Dir string
	Leaf                     []byte
	Index                    int64
	Proof                    []string
}

// head opens the note with the log's key and reads the three lines of a checkpoint.
func head(vkey, text string) (tlog.Tree, error) {
	verifier, err := note.NewVerifier(vkey)
	if err != nil {
		return tlog.Tree{}, err
	}
	opened, err := note.Open([]byte(text), note.VerifierList(verifier))
	if err != nil {
		return tlog.Tree{}, err
	}
	lines := strings.Split(opened.Text, "\n")
	if len(lines) != 4 || lines[3] != "" || lines[0] != verifier.Name() {
		return tlog.Tree{}, errors.New("not a checkpoint of this log")
	}
	size, err := strconv.ParseInt(lines[1], 10, 64)
	if err != nil || strconv.FormatInt(size, 10) != lines[1] {
		return tlog.Tree{}, errors.New("not a size")
	}
	root, err := tlog.ParseHash(lines[2])
	return tlog.Tree{N: size, Hash: root}, err
}

func hashes(lines []string) ([]tlog.Hash, error) {
	var found []tlog.Hash
	for _, line := range lines {
		hash, err := tlog.ParseHash(line)
		if err != nil {
			return nil, err
		}
		found = append(found, hash)
	}
	return found, nil
}

// dir reads tiles of height 8 from a directory; its paths leave the height out.
type dir string

func (dir) Height() int                     { return 8 }
func (dir) SaveTiles([]tlog.Tile, [][]byte) {}
func (d dir) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	var all [][]byte
	for _, tile := range tiles {
		data, err := os.ReadFile(filepath.Join(string(d), strings.Replace(tile.Path(), "tile/8/", "tile/", 1)))
		if err != nil {
			return nil, err
		}
		all = append(all, data)
	}
	return all, nil
}

// rows reads the entries of the whole log.
func rows(d string, size int64) ([][]byte, error) {
	var found [][]byte
	for first := int64(0); first < size; first += 256 {
		width := size - first
		path := fmt.Sprintf("tile/entries/%03d", first/256)
		if width < 256 {
			path += fmt.Sprintf(".p/%d", width)
		} else {
			width = 256
		}
		data, err := os.ReadFile(filepath.Join(d, path))
		if err != nil {
			return nil, err
		}
		for n := int64(0); n < width; n++ {
			if len(data) < 2 || len(data) < 2+int(binary.BigEndian.Uint16(data)) {
				return nil, fmt.Errorf("entry %d is cut short", first+n)
			}
			end := 2 + int(binary.BigEndian.Uint16(data))
			found = append(found, data[2:end])
			data = data[end:]
		}
		if len(data) != 0 {
			return nil, errors.New("bytes after the last entry")
		}
	}
	return found, nil
}

// tiles proves each entry by the tiles. The reader alone is not relied on: version 0.7 authenticates fewer tiles than it gives out where several
// subtrees of the head stand in one tile.
func tiles(d string, tree tlog.Tree) error {
	entries, err := rows(d, tree.N)
	if err != nil {
		return err
	}
	reader := tlog.TileHashReader(tree, dir(d))
	for n, entry := range entries {
		proof, err := tlog.ProveRecord(tree.N, int64(n), reader)
		if err != nil {
			return err
		}
		if err := tlog.CheckRecord(proof, tree.N, tree.Hash, int64(n), tlog.RecordHash(entry)); err != nil {
			return fmt.Errorf("entry %d: %v", n, err)
		}
	}
	return nil
}

// rebuilt builds the tree anew from the entries alone.
func rebuilt(d string, tree tlog.Tree) error {
	entries, err := rows(d, tree.N)
	if err != nil {
		return err
	}
	var stored []tlog.Hash
	reader := tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		var found []tlog.Hash
		for _, index := range indexes {
			found = append(found, stored[index])
		}
		return found, nil
	})
	for n, entry := range entries {
		added, err := tlog.StoredHashes(int64(n), entry, reader)
		if err != nil {
			return err
		}
		stored = append(stored, added...)
	}
	root, err := tlog.TreeHash(tree.N, reader)
	if err == nil && root != tree.Hash {
		err = errors.New("the entries have another root than the one that is signed")
	}
	return err
}

func run(j job) error {
	tree, err := head(j.Vkey, j.Note)
	if err != nil {
		return err
	}
	proof, err := hashes(j.Proof)
	if err != nil {
		return err
	}
	switch j.Do {
	case "checkpoint":
		return nil
	case "inclusion":
		return tlog.CheckRecord(proof, tree.N, tree.Hash, j.Index, tlog.RecordHash(j.Leaf))
	case "consistency":
		old, err := head(j.Vkey, j.Old)
		if err != nil {
			return err
		}
		return tlog.CheckTree(proof, tree.N, tree.Hash, old.N, old.Hash)
	case "tiles":
		return tiles(j.Dir, tree)
	case "entries":
		return rebuilt(j.Dir, tree)
	}
	return fmt.Errorf("no such job: %s", j.Do)
}

func main() {
	var jobs []job
	if err := json.NewDecoder(os.Stdin).Decode(&jobs); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	answers := []string{}
	for _, j := range jobs {
		said := ""
		if err := run(j); err != nil {
			said = err.Error()
		}
		answers = append(answers, said)
	}
	json.NewEncoder(os.Stdout).Encode(answers)
}
