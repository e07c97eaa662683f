package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/oauth2"

	"github.com/hostler/hostler/auth/oidc"
)

// Times of a login.
const (
	issuerTimeout = 30 * time.Second // of one request to an issuer
	loginTimeout  = 30 * time.Minute // of the user, where the issuer sets none
	maxPoll       = 60               // seconds between two polls
)

// flags adds the flags of an issuer.
func (l *loginConfig) flags(f *pflag.FlagSet) {
	f.StringVar(&l.Issuer, "issuer", "", "URL of the OpenID Connect issuer")
	f.StringVar(&l.ClientID, "client-id", "", "id of this client at the issuer; it must be a public one, with the device flow")
	f.StringVar(&l.Audience, "audience", "", "audience to request an access token for; without one the ID token is the credential")
	f.StringSliceVar(&l.Scopes, "scope", nil, "scopes to request (default openid, and offline_access if the issuer has it)")
	f.StringVar(&l.CAFile, "issuer-ca-file", "", "file with the certificates that the issuer's is verified with (default: the system's)")
}

func (l loginConfig) check() error {
	if l.Issuer == "" || l.ClientID == "" {
		return errors.New("name the issuer with --issuer and this client with --client-id")
	}
	return nil
}

// isSame reports whether tokens of one configuration are those of the other.
func (l loginConfig) isSame(o loginConfig) bool {
	return l.Issuer == o.Issuer && l.ClientID == o.ClientID && l.Audience == o.Audience && slices.Equal(l.Scopes, o.Scopes)
}

func newLoginCmd() *cobra.Command {
	var given loginConfig
	var name string
	cmd := &cobra.Command{
		Use: "login", Short: "Log in at an OpenID Connect issuer, for a context",
		Long: `Log in at an OpenID Connect issuer, with the device authorization flow: the command
shows an address and a code, which you enter in a browser on any machine. The token
is kept in a file with mode 0600, is refreshed when it expires, and is sent to the
server of the context only.

Without --issuer and --client-id, those of the context's last login are used.`,
		Example: "hostler login --issuer https://login.example.com --client-id hostler-cli",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f, err := readContexts()
			if err != nil {
				return err
			}
			name, c, ok, err := f.get(firstOf(name, os.Getenv("HOSTLER_CONTEXT")))
			if err != nil {
				return err
			}
			if !ok {
				return usagef(cmd, "there is no context to log in for; add one with `hostler context add NAME --server URL`")
			}
			login := given
			if given.Issuer == "" && given.ClientID == "" && c.Login != nil {
				login = *c.Login
			}
			if err := login.check(); err != nil {
				return usagef(cmd, "%v", err)
			}
			if err := makeAbsolute(&login.CAFile); err != nil {
				return err
			}
			token, err := login.run(cmd.Context(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if err := saveLogin(name, c.Server, login, token); err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "logged in to %s, at %s\n", sanitize(name), sanitize(c.Server))
			return nil
		},
	}
	given.flags(cmd.Flags())
	contextFlag(cmd, &name)
	return cmd
}

func newLogoutCmd() *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use: "logout", Short: "Remove the tokens of a context from this machine",
		Long: `Remove the tokens of a context from this machine. The issuer is not informed: until
they expire, copies of them remain valid.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return changeContexts(func(f *contextFile) error {
				name, _, ok, err := f.get(firstOf(name, os.Getenv("HOSTLER_CONTEXT")))
				if err != nil || !ok {
					return err
				}
				return removeTokens(f.path, name)
			})
		},
	}
	contextFlag(cmd, &name)
	return cmd
}

// contextFlag adds the flag of a command that is for a context.
func contextFlag(cmd *cobra.Command, name *string) {
	cmd.Flags().StringVar(name, "context", "", "the context (default $HOSTLER_CONTEXT, else the one of hostler context use)")
	must(cmd.RegisterFlagCompletionFunc("context", completeContexts))
}

// saveLogin keeps the tokens, and how they were obtained. The tokens are written
// first: they name what they are for, so that those of an interrupted command are not
// used for something else.
func saveLogin(name, server string, login loginConfig, token *oauth2.Token) error {
	return changeContexts(func(f *contextFile) error {
		_, c, _, err := f.get(name)
		if err != nil {
			return err
		}
		if c.Server != server {
			return fmt.Errorf("the context %s was changed during the login; log in again", name)
		}
		stored, err := login.stored(server, token)
		if err != nil {
			return err
		}
		path := tokenPath(f.path, name)
		unlock, err := lockFile(path)
		if err != nil {
			return err
		}
		defer unlock()
		if err := stored.write(path); err != nil {
			return err
		}
		c.Login, c.KeyFile = &login, ""
		f.Contexts[name] = c
		return nil
	})
}

// endpoint returns the client of the issuer, and the context of its requests.
func (l loginConfig) endpoint(ctx context.Context) (*oauth2.Config, context.Context, error) {
	issuer := oidc.Issuer{URL: l.Issuer, CAFile: l.CAFile}
	m, err := oidc.Discover(ctx, issuer)
	if err != nil {
		return nil, nil, err
	}
	web, err := issuer.Client()
	if err != nil {
		return nil, nil, err
	}
	web.Timeout = issuerTimeout
	if m.TokenURL == "" {
		return nil, nil, errors.New("the issuer names no token endpoint")
	}
	c := &oauth2.Config{
		ClientID: l.ClientID, Scopes: l.Scopes,
		Endpoint: oauth2.Endpoint{TokenURL: m.TokenURL, DeviceAuthURL: m.DeviceAuthURL, AuthStyle: oauth2.AuthStyleInParams},
	}
	if len(c.Scopes) == 0 {
		c.Scopes = []string{"openid"}
		if slices.Contains(m.ScopesSupported, "offline_access") {
			c.Scopes = append(c.Scopes, "offline_access")
		}
	}
	return c, context.WithValue(ctx, oauth2.HTTPClient, web), nil
}

// run runs the device authorization flow, and shows the user what to do.
func (l loginConfig) run(ctx context.Context, out io.Writer) (*oauth2.Token, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, loginTimeout, errors.New("the login took too long"))
	defer cancel()
	c, ctx, err := l.endpoint(ctx)
	if err != nil {
		return nil, err
	}
	if c.Endpoint.DeviceAuthURL == "" {
		return nil, errors.New("the issuer does not have the device authorization flow")
	}
	var options []oauth2.AuthCodeOption
	if l.Audience != "" {
		options = append(options, oauth2.SetAuthURLParam("audience", l.Audience))
	}
	device, err := c.DeviceAuth(ctx, options...)
	if err != nil {
		return nil, issuerError("ask the issuer for a code", err)
	}
	if device == nil || device.DeviceCode == "" || device.UserCode == "" || device.VerificationURI == "" {
		return nil, errors.New("the issuer has returned no code")
	}
	// An issuer could choose an interval for which there is no clock.
	device.Interval = min(max(device.Interval, 0), maxPoll)
	fmt.Fprintf(out, "Open %s and enter the code %s\n", plainLine(device.VerificationURI), plainLine(device.UserCode))
	if device.VerificationURIComplete != "" {
		fmt.Fprintf(out, "or open %s\n", plainLine(device.VerificationURIComplete))
	}
	token, err := c.DeviceAccessToken(ctx, device)
	if err != nil {
		return nil, issuerError("wait for the login", err)
	}
	return token, nil
}

// plainLine returns a text of an issuer as one line that a terminal can print.
func plainLine(text string) string {
	return fmt.Sprintf("%.500s", sanitize(strings.Join(strings.Fields(text), " ")))
}

// issuerErrors are the errors of issuers that users cause.
var issuerErrors = map[string]string{
	"access_denied": "the login was denied",
	"expired_token": "the code has expired; log in again",
	"invalid_grant": "the login has ended; log in again with hostler login",
}

// issuerError describes an error of an issuer, without what else it has answered:
// that could have tokens.
func issuerError(action string, err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s: %s", action, issuerErrors["expired_token"])
	}
	answer, ok := errors.AsType[*oauth2.RetrieveError](err)
	switch {
	case !ok:
		return fmt.Errorf("%s: %w", action, err)
	case issuerErrors[answer.ErrorCode] != "":
		return fmt.Errorf("%s: %s", action, issuerErrors[answer.ErrorCode])
	case answer.ErrorCode == "":
		return fmt.Errorf("%s: the issuer answers with status %d", action, answer.Response.StatusCode)
	}
	return fmt.Errorf("%s: the issuer answers %.100q: %.300q", action, answer.ErrorCode, answer.ErrorDescription)
}
