package credential

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"time"
)

const (
	// connectWithin bounds connecting, and the handshake after it: places are in this region.
	connectWithin = time.Second
	// idle connections are kept for each host, as many as a batch of streams ends with at once.
	idle = 512
)

// certificate reads a client certificate and makes the connections that show it.
func (r *reader) certificate(spec *Spec) (*Credential, error) {
	cert, err := r.file("certificate", spec.CertFile, false)
	if err != nil {
		return nil, err
	}
	key, err := r.file("key", spec.KeyFile, true)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("certificate %s with key %s: %w", spec.CertFile, spec.KeyFile, err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	if spec.CAFile != "" {
		text, err := r.file("authority", spec.CAFile, false)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("authority %s holds no certificate", spec.CAFile)
		}
	}
	return &Credential{transport: transport(config, r.s.control)}, nil
}

// transport is tuned as the relay's own towards the places of its region is; over TLS HTTP/2 is
// spoken where the place speaks it.
func transport(config *tls.Config, control func(string, string, syscall.RawConn) error) *http.Transport {
	return &http.Transport{
		DialContext:            (&net.Dialer{Timeout: connectWithin, KeepAlive: 5 * time.Second, Control: control}).DialContext,
		TLSClientConfig:        config,
		TLSHandshakeTimeout:    connectWithin,
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: 5 * time.Second, PingTimeout: 2 * time.Second},
		MaxIdleConns:           8 * idle,
		MaxIdleConnsPerHost:    idle,
		IdleConnTimeout:        90 * time.Second,
		DisableCompression:     true,
		MaxResponseHeaderBytes: 64 << 10,
		WriteBufferSize:        16 << 10,
		ReadBufferSize:         16 << 10,
	}
}

// retire drops the idle connections of a credential that is no longer used; those in use close when
// their requests end.
func (c *Credential) retire() {
	if c.transport != nil {
		c.transport.CloseIdleConnections()
	}
}
