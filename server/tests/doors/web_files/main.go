// Makes verdicts.txt: what Prometheus' exporter toolkit makes of each web configuration file of cases.txt, and what
// clients of several kinds get where it takes one. README.md says how to run it, and what the lines mean.
package main

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/exporter-toolkit/web"
)

// What a server may take to refuse its file.
const settles = 150 * time.Millisecond

type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         string
}

type issued struct{ certificate, key string }

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func certificatePem(der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func keyPem(key *ecdsa.PrivateKey) string {
	der := must(x509.MarshalPKCS8PrivateKey(key))
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

var serial int64

func template() *x509.Certificate {
	serial++
	return &x509.Certificate{
		SerialNumber: big.NewInt(serial),
		Subject:      pkix.Name{CommonName: fmt.Sprint("certificate ", serial)},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
	}
}

func newAuthority() authority {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	ca := template()
	ca.IsCA, ca.BasicConstraintsValid = true, true
	der := must(x509.CreateCertificate(rand.Reader, ca, ca, &key.PublicKey, key))
	return authority{must(x509.ParseCertificate(der)), key, certificatePem(der)}
}

func (a authority) itself() issued { return issued{a.pem, keyPem(a.key)} }

func (a authority) issue(name string) issued {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	leaf := template()
	leaf.DNSNames = []string{name}
	der := must(x509.CreateCertificate(rand.Reader, leaf, a.certificate, &key.PublicKey, a.key))
	return issued{certificatePem(der), keyPem(key)}
}

// A case's name, whether clients come, and its file.
type webFile struct {
	name    string
	clients bool
	text    string
}

func read(path string) (files []webFile) {
	file := must(os.Open(path))
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		line := lines.Text()
		if name, begins := strings.CutPrefix(line, "=== "); begins {
			name, clients := strings.CutSuffix(name, ", clients")
			files = append(files, webFile{name: name, clients: clients})
		} else if len(files) > 0 {
			files[len(files)-1].text += line + "\n"
		}
	}
	return files
}

// The file with the text of the files beside it where a line is `@` and a name.
func (f webFile) write(dir string) string {
	var text strings.Builder
	for _, line := range strings.SplitAfter(f.text, "\n") {
		inside, name, named := strings.Cut(line, "@")
		if !named || strings.TrimSpace(inside) != "" {
			text.WriteString(line)
			continue
		}
		for _, line := range strings.SplitAfter(string(must(os.ReadFile(filepath.Join(dir, strings.TrimSpace(name))))), "\n") {
			if line != "" {
				text.WriteString(inside + line)
			}
		}
	}
	path := filepath.Join(dir, "web.yml")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		log.Fatal(err)
	}
	return path
}

type client struct {
	name     string
	plain    bool
	shows    *issued
	password string
	change   func(*tls.Config)
}

func (c client) comes(to net.Addr, roots *x509.CertPool) string {
	scheme := "https"
	if c.plain {
		scheme = "http"
	}
	config := &tls.Config{RootCAs: roots, ServerName: "localhost", NextProtos: []string{"http/1.1"}}
	if c.shows != nil {
		pair := must(tls.X509KeyPair([]byte(c.shows.certificate), []byte(c.shows.key)))
		// Whatever the server says of whom it trusts.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	if c.change != nil {
		c.change(config)
	}
	if config.NextProtos[0] == "h2" {
		connection, err := tls.Dial("tcp", to.String(), config)
		if err != nil {
			return "-"
		}
		defer connection.Close()
		if protocol := connection.ConnectionState().NegotiatedProtocol; protocol != "" {
			return protocol
		}
		return "-"
	}
	transport := &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}
	request := must(http.NewRequest("GET", fmt.Sprintf("%s://%s/-/healthy", scheme, to), nil))
	if c.password != "" {
		request.SetBasicAuth("alice", c.password)
	}
	answer, err := (&http.Client{Transport: transport, Timeout: 5 * time.Second}).Do(request)
	if err != nil {
		return "-"
	}
	answer.Body.Close()
	// To whom speaks HTTP to TLS, Go says so in HTTP.
	if answer.StatusCode == http.StatusBadRequest {
		return "-"
	}
	return fmt.Sprint(answer.StatusCode)
}

func main() {
	log.SetFlags(0)
	dir := must(os.MkdirTemp("", "web-files"))
	defer os.RemoveAll(dir)
	ca, other, own := newAuthority(), newAuthority(), newAuthority()
	server := ca.issue("localhost")
	for name, text := range map[string]string{
		"server.crt": server.certificate, "server.key": server.key, "both.pem": server.certificate + server.key,
		"chain.crt": server.certificate + ca.pem, "other.key": other.itself().key, "ca.crt": ca.pem, "own.crt": own.pem,
		"bundle.crt": "of two\n" + own.pem + "and\n" + ca.pem, "nothing.crt": "", "junk.crt": "junk\n",
		"partly.crt": ca.pem + "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			log.Fatal(err)
		}
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca.certificate)
	known, stranger, itself := ca.issue("agent.test"), other.issue("agent.test"), own.itself()
	clients := []client{
		{name: "plain", plain: true},
		{name: "plain-alice", plain: true, password: "secret"},
		{name: "tls"},
		{name: "tls-alice", password: "secret"},
		{name: "tls-guess", password: "guess"},
		{name: "known", shows: &known},
		{name: "itself", shows: &itself},
		{name: "stranger", shows: &stranger},
		{name: "h2", change: func(c *tls.Config) { c.NextProtos = []string{"h2"} }},
		{name: "tls12", change: func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }},
		{name: "tls13", change: func(c *tls.Config) { c.MinVersion = tls.VersionTLS13 }},
		{name: "p384", change: func(c *tls.Config) { c.CurvePreferences = []tls.CurveID{tls.CurveP384} }},
	}

	verdicts := bufio.NewWriter(must(os.Create("verdicts.txt")))
	defer verdicts.Flush()
	for _, file := range read("cases.txt") {
		path := file.write(dir)
		fmt.Fprint(verdicts, file.name, ": ", verdict(file, path, clients, roots), "\n")
	}
}

func verdict(file webFile, path string, clients []client, roots *x509.CertPool) string {
	listener := must(net.Listen("tcp", "127.0.0.1:0"))
	defer listener.Close()
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	server := &http.Server{
		Handler:  http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "here") }),
		ErrorLog: log.New(io.Discard, "", 0),
	}
	defer server.Close()
	ended := make(chan error, 1)
	go func() { ended <- web.Serve(listener, server, &web.FlagConfig{WebConfigFile: &path}, quiet) }()
	select {
	case err := <-ended:
		fmt.Fprintf(os.Stderr, "%s: %v\n", file.name, err)
		return "refused"
	case <-time.After(settles):
	}
	line := "taken"
	if file.clients {
		for _, client := range clients {
			line += " " + client.name + "=" + client.comes(listener.Addr(), roots)
		}
	}
	return line
}
