package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"gopkg.in/yaml.v3"

	"github.com/hostler/hostler/api"
	"github.com/hostler/hostler/hooks/request"
	"github.com/hostler/hostler/quota"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
	"github.com/hostler/hostler/store"
	"github.com/hostler/hostler/wait"
)

// serveConfig is the configuration of a server. Every field is a flag of serve, an
// environment variable (HOSTLER_ and the flag's name in capitals) and a key of
// the config file; the flag wins over the variable, the variable over the file.
type serveConfig struct {
	listen       string
	data         string
	runtime      string
	store        string
	storeFile    string
	workloads    string
	apiKeyFile   string
	bindingsFile string
	shim         string
	shimImage    string
	kubeconfig   string
	namespace    string
	nonRoot      bool
	logLevel     string
	logFormat    string
	retention    time.Duration
	// unresponsive is how long a running container may leave requests
	// unanswered.
	unresponsive time.Duration

	// maxWaitTimeout is the greatest timeout of a wait.
	maxWaitTimeout time.Duration

	// Where tenants' state may be kept, and the secrets for it.
	stateDir       string
	stateDirs      []string
	stateKeyFile   string
	credentialsDir string
	profilesDir    string

	// Where requests of hooks may go, and the server's Google credentials.
	hooksAllow, hooksDeny, hooksOwn, hooksGCPHosts []string
	hooksGCP                                       bool

	portDomain string // whose hosts are ports of claims

	oidc      oidcConfig // whose tokens are accepted
	listeners listenConfig

	quotas map[quota.Level]*string // the default limits, as text

	redactor *request.Redactor // of the secrets that hooks have read

	// Of a server for one command: tenants' state is kept in its own directory,
	// whatever the workloads name; and what is called before a container is removed.
	ownState      bool
	beforeDestroy func(ctx context.Context, rt runtime.Runtime, container string)
}

// sqlite is the name of the default store: a file in the data directory.
const sqlite = "sqlite"

// checkArguments rejects a password in the arguments, which every user of the
// machine can read. It is called before the environment and the config file
// are read.
func (c *serveConfig) checkArguments() error {
	if store.Redact(c.store) != c.store {
		return errors.New("--store: a password on the command line can be read by every user of this machine; " +
			"put the URL into HOSTLER_STORE, or into a file that --store-file names")
	}
	return nil
}

// database returns the data source name for store.Open.
func (c *serveConfig) database() (string, error) {
	if c.storeFile != "" {
		text, err := os.ReadFile(c.storeFile)
		if err != nil {
			return "", fmt.Errorf("read the store's URL: %w", err)
		}
		return strings.TrimSpace(string(text)), nil
	}
	if c.store != sqlite {
		return c.store, nil
	}
	return filepath.Join(c.data, "hostler.db"), nil
}

// flags defines the flags of serve.
func (c *serveConfig) flags(f *pflag.FlagSet) {
	f.StringVar(&c.listen, "listen", "127.0.0.1:8700", "address to serve the API on")
	f.StringVar(&c.data, "data", defaultData(), "directory of the database and all other files of the server")
	f.StringVar(&c.runtime, "runtime", "auto", "container runtime: auto (docker), docker, kubernetes, or process (no isolation: for testing only)")
	f.StringVar(&c.store, "store", sqlite, "where records are stored: sqlite, a file in the data directory, or postgres://USER@HOST/DATABASE")
	f.StringVar(&c.storeFile, "store-file", "", "file with the store's URL, for a URL with a password")
	f.StringVar(&c.workloads, "workloads", "", "directory of workload files to load and watch")
	f.StringVar(&c.apiKeyFile, "api-key-file", "", "file with one API key per line, followed when it changes; without a key, in it or made by the API, only loopback addresses are served")
	f.StringVar(&c.bindingsFile, "bindings-file", "", "YAML file with bindings: roles of holders of tokens and certificates, and of users of this machine; followed when it changes")
	f.StringVar(&c.shim, "shim", "", "the hostler-shim binary (default: next to this program)")
	f.StringVar(&c.shimImage, "shim-image", "", "on kubernetes, the image that has hostler-shim: this program's own")
	f.StringVar(&c.kubeconfig, "kubeconfig", "", "on kubernetes, the kubeconfig file (default: KUBECONFIG, or the pod's service account)")
	f.StringVar(&c.namespace, "namespace", "", "on kubernetes, the namespace of the containers (default: the kubeconfig's, or the pod's own)")
	f.BoolVar(&c.nonRoot, "non-root", false, "on kubernetes, run nothing as root, for namespaces of the Pod Security level restricted")
	f.StringVar(&c.logLevel, "log-level", "info", "debug, info, warn or error")
	f.StringVar(&c.logFormat, "log-format", "auto", "text, json, or auto: text on a terminal")
	f.DurationVar(&c.retention, "retention", 30*24*time.Hour, "how long to keep events, hook runs, ended claims and destroyed containers; 0 keeps them forever")
	f.DurationVar(&c.unresponsive, "unresponsive-timeout", shim.DefaultUnresponsiveTimeout,
		"how long a running container may leave requests unanswered before it is destroyed")
	f.DurationVar(&c.maxWaitTimeout, "max-wait-timeout", wait.DefaultMaxTimeout, "the greatest timeout of a wait of a tenant's program")
	f.StringVar(&c.stateDir, "state-dir", "", "directory of tenants' state, for sinks of type file that name none (default with sqlite: state in the data directory)")
	f.StringSliceVar(&c.stateDirs, "state-dirs", nil, "directories that sinks of type file may name")
	f.StringVar(&c.stateKeyFile, "state-key-file", "", "file with the keys that tenants' state is encrypted with, each a line of 32 bytes in base64: the first encrypts, all decrypt; read at the start")
	f.StringVar(&c.profilesDir, "seccomp-profiles", "", "directory of the seccomp profiles, each a file NAME.json, that workloads may name on Docker")
	f.StringVar(&c.credentialsDir, "credentials-dir", "", "directory of the files that sinks' credentials and hooks' secrets may name")
	f.StringSliceVar(&c.hooksAllow, "hooks-allow", nil, "hosts, addresses and CIDRs that requests of hooks may be sent to, in addition to global and private addresses")
	f.StringSliceVar(&c.hooksDeny, "hooks-deny", nil, "hosts, addresses and CIDRs that requests of hooks must not be sent to, also if --hooks-allow has them")
	f.StringSliceVar(&c.hooksOwn, "hooks-own", nil, "addresses and names of this server that are not on its interfaces, such as that of a load balancer; requests of hooks reach them only if --hooks-allow has them")
	f.BoolVar(&c.hooksGCP, "hooks-gcp", false, "let hooks authenticate with this server's own Google credentials (auth: gcp)")
	f.StringSliceVar(&c.hooksGCPHosts, "hooks-gcp-hosts", []string{"*.googleapis.com"}, "hosts that those credentials may be sent to")
	f.StringVar(&c.portDomain, "port-domain", "", "domain whose hosts PORT-CLAIM.DOMAIN are ports of claims: ports.example.com, for https, or http://localhost:8700; its DNS has a wildcard")
	c.oidc.flags(f)
	c.listeners.flags(f)
	c.quotaFlags(f)
	f.String("config", "", "YAML file with any of these flags as keys")
}

// defaultData returns the default data directory: the system's for root, the
// user's state directory otherwise.
func defaultData() string {
	if os.Geteuid() == 0 {
		return "/var/lib/hostler"
	}
	if dir := os.Getenv("XDG_STATE_HOME"); dir != "" {
		return filepath.Join(dir, "hostler")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "hostler-data"
	}
	return filepath.Join(home, ".local", "state", "hostler")
}

// fillFlags sets the flags that were not given, from the environment and the
// config file.
func fillFlags(cmd *cobra.Command, getenv func(string) string) error {
	var validationErrors error
	set := func(f *pflag.Flag, value, from string) {
		if err := cmd.Flags().Set(f.Name, value); err != nil {
			validationErrors = errors.Join(validationErrors, fmt.Errorf("%s: %s: %w", from, f.Name, err))
		}
	}
	config := cmd.Flags().Lookup("config")
	if !config.Changed {
		config.Value.Set(getenv("HOSTLER_CONFIG")) //nolint:errcheck // a string takes anything
	}
	values, err := readConfig(config.Value.String())
	if err != nil {
		return err
	}
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		env := "HOSTLER_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		value, inFile := values[f.Name]
		delete(values, f.Name)
		switch {
		case f.Changed || f.Name == "config" || f.Name == "help":
		case getenv(env) != "":
			set(f, getenv(env), env)
		case inFile:
			if value.isList && f.Value.Type() != "stringSlice" {
				validationErrors = errors.Join(validationErrors, fmt.Errorf("%s: %s: it takes one value, not a list", config.Value, f.Name))
				return
			}
			set(f, value.text, config.Value.String())
		}
	})
	for name := range values {
		validationErrors = errors.Join(validationErrors, fmt.Errorf("%s: unknown key %q: it takes the names of serve's flags", config.Value, name))
	}
	return validationErrors
}

// configValue is a value of the config file in the notation of a flag.
type configValue struct {
	text   string
	isList bool
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (v *configValue) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.SequenceNode {
		return n.Decode(&v.text)
	}
	v.isList = true
	var list []string
	if err := n.Decode(&list); err != nil || len(list) == 0 {
		return err
	}
	var text strings.Builder
	w := csv.NewWriter(&text) // of a flag that may be repeated
	w.Write(list)             //nolint:errcheck // a strings.Builder takes anything
	w.Flush()
	v.text = strings.TrimSuffix(text.String(), "\n")
	return nil
}

// readConfig reads the config file: a flat map of flags.
func readConfig(path string) (map[string]configValue, error) {
	if path == "" {
		return map[string]configValue{}, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the config file: %w", err)
	}
	values := map[string]configValue{}
	if err := yaml.NewDecoder(bytes.NewReader(text)).Decode(&values); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read the config file %s: %w", path, err)
	}
	return values, nil
}

// check reports invalid values, all of them at once.
func (c *serveConfig) check() error {
	var validationErrors error
	oneOf := func(flag, value string, allowed ...string) {
		if !slices.Contains(allowed, value) {
			validationErrors = errors.Join(validationErrors, fmt.Errorf("--%s %q: it takes %s", flag, value, strings.Join(allowed, ", ")))
		}
	}
	if _, err := api.ParsePortDomain(c.portDomain, nil); err != nil {
		validationErrors = errors.Join(validationErrors, fmt.Errorf("--port-domain: %w", err))
	}
	if _, err := c.tokenVerifier(); err != nil {
		validationErrors = errors.Join(validationErrors, err)
	}
	if err := c.listeners.check(); err != nil {
		validationErrors = errors.Join(validationErrors, err)
	}
	if c.retention < 0 {
		validationErrors = errors.Join(validationErrors, fmt.Errorf("--retention %s: it takes 0 (forever) or more", c.retention))
	}
	if c.unresponsive <= 0 {
		validationErrors = errors.Join(validationErrors, fmt.Errorf("--unresponsive-timeout %s: it takes more than 0", c.unresponsive))
	}
	if c.maxWaitTimeout < time.Millisecond {
		validationErrors = errors.Join(validationErrors, fmt.Errorf("--max-wait-timeout %s: it takes 1ms or more", c.maxWaitTimeout))
	}
	oneOf("runtime", c.runtime, slices.Sorted(maps.Keys(backends))...)
	if c.runtime == "kubernetes" && c.shimImage == "" {
		validationErrors = errors.Join(validationErrors, errors.New("--runtime kubernetes needs --shim-image: the image that has hostler-shim"))
	}
	if c.store != sqlite && !strings.HasPrefix(c.store, "postgres://") && !strings.HasPrefix(c.store, "postgresql://") {
		validationErrors = errors.Join(validationErrors, fmt.Errorf("--store: it takes sqlite, or the URL of a PostgreSQL database"))
	}
	if c.storeFile != "" && c.store != sqlite {
		validationErrors = errors.Join(validationErrors, fmt.Errorf("--store and --store-file: use only one of them"))
	}
	if _, err := c.quotaDefaults(); err != nil {
		validationErrors = errors.Join(validationErrors, err)
	}
	oneOf("log-level", c.logLevel, "debug", "info", "warn", "error")
	oneOf("log-format", c.logFormat, "auto", "text", "json")
	return validationErrors
}
