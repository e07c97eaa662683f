package snapshot

import (
	"context"
	"crypto/cipher"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/hostler/hostler/snapshot/index"
	"github.com/hostler/hostler/snapshot/pack"
	"github.com/hostler/hostler/snapshot/statekey"
)

// packsDir has an owner's packs.
const packsDir = "packs/"

// repository is what an owner has in a bucket.
type repository struct {
	bucket Bucket
	dir    string // the owner's directory
	format *pack.Format
}

// repository returns that of an owner whose directory and current manifest are
// given.
func (s *Sink) repository(dir string, h manifest) repository {
	format := &pack.Format{Salt: h.Salt, Owner: h.Workload + "/" + h.Tenant, Keys: s.keys}
	return repository{bucket: s.bucket, dir: dir, format: format}
}

// packKeysOf returns keys as package pack takes them, nil for none.
func packKeysOf(keys *statekey.Keys) pack.Keys {
	if keys == nil {
		return nil
	}
	return packKeys{keys}
}

// packKeys are keys whose ids are plain bytes.
type packKeys struct{ *statekey.Keys }

func (k packKeys) Current() [8]byte { return k.Keys.Current() }

func (k packKeys) Pack(key [8]byte, id [16]byte) (cipher.AEAD, error) {
	return k.Keys.Pack(statekey.ID(key), id)
}

// reader returns a reader of the owner's packs. The caller closes it.
func (r repository) reader(progress func(int64)) *pack.Reader {
	return pack.NewReader(r.bucket, r.dir+packsDir, r.format, progress)
}

// openPart reads the root of a part's index. A small pack is held, so that the
// rest of a small state needs no other request.
func (r repository) openPart(ctx context.Context, from *pack.Reader, p Part) (*index.Root, error) {
	ref, err := p.Index.ref()
	if err != nil {
		return nil, err
	}
	if err := from.Hold(ctx, ref.Pack, p.Index.PackSize); err != nil {
		return nil, storedError(err)
	}
	root, err := index.Open(ctx, from, ref)
	if err != nil {
		return nil, storedError(err)
	}
	if root.Files != p.Files || root.Bytes != p.Bytes {
		return nil, fmt.Errorf("%w: the index of %s has %d files of %d bytes, and the list of snapshots %d of %d",
			ErrCorrupt, p.SinkPath, root.Files, root.Bytes, p.Files, p.Bytes)
	}
	return root, nil
}

// storedError marks damage of stored objects as such, and what needs a key.
func storedError(err error) error {
	if errors.Is(err, pack.ErrNoKeys) {
		return fmt.Errorf("%w: %w", ErrUnknownKey, err)
	}
	if isDamage(err) {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return err
}

// locationOf returns the location of a root in a pack of that size.
func locationOf(r pack.Ref, packSize int64) Location {
	return Location{
		Pack: r.Pack.String(), PackSize: packSize, Offset: r.Offset, Length: r.Length, Size: r.Size, Hash: r.Hash.String(),
	}
}

// ref returns the reference that a manifest has, if it is valid.
func (l Location) ref() (pack.Ref, error) {
	id, err := uuid.Parse(l.Pack)
	hash, hashErr := hex.DecodeString(l.Hash)
	if err != nil || hashErr != nil || len(hash) != len(pack.Hash{}) {
		return pack.Ref{}, fmt.Errorf("%w: the list of snapshots has an invalid reference", ErrCorrupt)
	}
	r := pack.Ref{Pack: pack.ID(id), Offset: l.Offset, Length: l.Length, Size: l.Size, Hash: pack.Hash(hash)}
	if err := r.Check(pack.Root); err != nil {
		return pack.Ref{}, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return r, nil
}
