package table

import (
	"fmt"
	"net"
	"strconv"

	"anabranch/api/routerpb"
)

// QuotaStore is a Redis that keeps the levels of organisations, and how this router reaches it.
type QuotaStore struct {
	// Addresses are host:port of the server, of members of the cluster or, with Master, of Sentinels.
	Addresses []string
	// Master is the name by which Sentinels know the primary. Empty: there are no Sentinels.
	Master string
	// Cluster: it is a Redis Cluster.
	Cluster bool
	// Username of Redis's access lists. Empty: the default user.
	Username string
	// PasswordFile or PasswordEnv, at most one, says where this router finds the password. Neither: there is none.
	PasswordFile, PasswordEnv string
	// TLS: connections are encrypted. CAFile has the authorities believed, empty: the system's;
	// CertFile and KeyFile what is shown, empty: nothing.
	TLS                       bool
	CAFile, CertFile, KeyFile string
}

// maxAddresses bounds the addresses of one quota store.
const maxAddresses = 64

func quotaStore(at string, p *routerpb.QuotaStore) (*QuotaStore, error) {
	if p == nil {
		return nil, nil
	}
	s := &QuotaStore{
		Addresses: p.Addresses, Master: p.Master, Cluster: p.Cluster,
		Username: p.Username, PasswordFile: p.PasswordFile, PasswordEnv: p.PasswordEnv,
		TLS: p.Tls, CAFile: p.CaFile, CertFile: p.CertFile, KeyFile: p.KeyFile,
	}
	if len(s.Addresses) == 0 || len(s.Addresses) > maxAddresses {
		return nil, invalid(CodeValue, at+".addresses", "has %d, want 1 to %d", len(s.Addresses), maxAddresses)
	}
	for i, a := range s.Addresses {
		host, port, err := net.SplitHostPort(a)
		if n, e := strconv.ParseUint(port, 10, 16); err != nil || e != nil || host == "" || n == 0 {
			return nil, invalid(CodeValue, fmt.Sprintf("%s.addresses[%d]", at, i), "is not host:port")
		}
	}
	switch {
	case s.Cluster && s.Master != "":
		return nil, invalid(CodeValue, at+".master", "is of Sentinels, which a cluster doesn't have")
	case s.PasswordFile != "" && s.PasswordEnv != "":
		return nil, invalid(CodeValue, at+".password_env", "and password_file are given both")
	case (s.CertFile == "") != (s.KeyFile == ""):
		return nil, invalid(CodeValue, at+".key_file", "and cert_file are to be given both or not at all")
	case !s.TLS && (s.CAFile != "" || s.CertFile != ""):
		return nil, invalid(CodeValue, at+".tls", "is not set, but files for it are")
	}
	return s, nil
}
