package main

import (
	"context"

	"github.com/hostler/hostler/doctor"
)

// doctor returns the doctor of this server, whose data directory is data.
func (s *server) doctor(data string) *doctor.Doctor {
	return &doctor.Doctor{
		Engine: s.rt, Records: s.db, Pools: s.pools, Catalog: s.pools.Catalog,
		Database: func(ctx context.Context) (doctor.Database, error) {
			about, err := s.db.Info(ctx)
			return doctor.Database(about), err
		},
		Disk:        func() (doctor.Disk, error) { return diskSpace(data) },
		Listeners:   func() []string { return s.listener.problems() },
		Credentials: s.credentialFailures, CredentialProblems: s.credentialProblems,
		WorkloadFiles: s.db.FollowedFiles,
	}
}
