package cloud

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"cloud.google.com/go/storage"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"gocloud.dev/blob"
	"gocloud.dev/blob/azureblob"
	"gocloud.dev/blob/gcsblob"
	"gocloud.dev/blob/s3blob"
	"gocloud.dev/gcp"
	"golang.org/x/oauth2/google"
	"google.golang.org/api/option"

	"github.com/hostler/hostler/snapshot"
	"github.com/hostler/hostler/workload"
)

// providers open the sinks that are not a directory. Each gets the secret that
// the sink's credentials name, or "" for the provider's default chain, and
// returns the parts of it that must never be shown.
var providers = map[workload.SinkType]func(ctx context.Context, s workload.Sink, secret string) (*blob.Bucket, []string, error){
	workload.SinkS3:    openS3,
	workload.SinkGCS:   openGCS,
	workload.SinkAzure: openAzure,
}

// Open opens the bucket of a sync's sink with a provider. It checks the
// credentials as far as it can without contacting the provider; secret is "" for
// the provider's default chain. It implements snapshot.OpenBucket.
func Open(ctx context.Context, sync *workload.Sync, secret string) (snapshot.Bucket, error) {
	open, ok := providers[sync.Sink.Type]
	if !ok {
		return nil, fmt.Errorf("unknown sink type")
	}
	b, secrets, err := open(ctx, sync.Sink, secret)
	if err != nil {
		return nil, err
	}
	return newBucket(b, secrets), nil
}

// openS3 accepts keys in the format of Amazon's credentials file.
func openS3(ctx context.Context, s workload.Sink, secret string) (*blob.Bucket, []string, error) {
	var options []func(*config.LoadOptions) error
	var hide []string
	if secret != "" {
		k := parseSettings(secret)
		id, key, token := k["aws_access_key_id"], k["aws_secret_access_key"], k["aws_session_token"]
		if id == "" || key == "" {
			return nil, nil, fmt.Errorf("%w: aws_access_key_id or aws_secret_access_key is missing", snapshot.ErrCredentials)
		}
		options = append(options, config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider(id, key, token)))
		hide = append(hide, key, token)
	}
	if s.Region != "" {
		options = append(options, config.WithRegion(s.Region))
	}
	c, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return nil, nil, err
	}
	if c.Region == "" {
		c.Region = "us-east-1" // what S3-compatible services expect
	}
	client := s3.NewFromConfig(c, func(o *s3.Options) {
		o.DisableLogOutputChecksumValidationSkipped = true // Hostler's own checksum covers the object
		if s.Endpoint != "" {
			// A service with a custom endpoint rarely has a host name for each
			// bucket.
			o.BaseEndpoint, o.UsePathStyle = &s.Endpoint, true
		}
	})
	b, err := s3blob.OpenBucket(ctx, client, s.Bucket, &s3blob.Options{
		RequestChecksumCalculation: c.RequestChecksumCalculation,
	})
	return b, redactable(hide), err
}

// gcsScope is the scope of a key.
const gcsScope = "https://www.googleapis.com/auth/devstorage.read_write"

// gcsAttempts is the number of attempts of a call with retryable errors: about
// 15 seconds, as with the other providers' clients.
const gcsAttempts = 5

// openGCS accepts a service account key, as JSON.
func openGCS(ctx context.Context, s workload.Sink, secret string) (*blob.Bucket, []string, error) {
	var tokens gcp.TokenSource
	var hide []string
	if secret != "" {
		key, err := google.JWTConfigFromJSON([]byte(secret), gcsScope)
		if err != nil {
			return nil, nil, fmt.Errorf("%w: not a service account key", snapshot.ErrCredentials)
		}
		tokens, hide = key.TokenSource(context.WithoutCancel(ctx)), append(hide, string(key.PrivateKey))
	} else {
		found, err := google.FindDefaultCredentials(context.WithoutCancel(ctx), gcsScope)
		if err != nil {
			return nil, nil, err
		}
		tokens = found.TokenSource
	}
	client, err := gcp.NewHTTPClient(http.DefaultTransport, tokens)
	if err != nil {
		return nil, nil, err
	}
	// By default the client would also search for credentials of the machine,
	// and would retry a call until its context ends.
	b, err := gcsblob.OpenBucket(ctx, client, s.Bucket, &gcsblob.Options{
		ClientOptions: []option.ClientOption{option.WithoutAuthentication()},
	})
	var service *storage.Client
	if err == nil && b.As(&service) {
		service.SetRetry(storage.WithMaxAttempts(gcsAttempts))
	}
	return b, redactable(hide), err
}

// openAzure accepts a connection string.
func openAzure(ctx context.Context, s workload.Sink, secret string) (*blob.Bucket, []string, error) {
	if secret != "" {
		secret = strings.TrimSpace(secret)
		client, err := container.NewClientFromConnectionString(secret, s.Bucket, nil)
		if err != nil {
			return nil, nil, fmt.Errorf("%w: not a connection string", snapshot.ErrCredentials)
		}
		b, err := azureblob.OpenBucket(ctx, client, nil)
		return b, redactable(connectionSecrets(secret)), err
	}
	service := s.Endpoint
	if service == "" {
		service = "https://" + s.Account + ".blob.core.windows.net"
	}
	client, err := azureblob.NewDefaultClient(azureblob.ServiceURL(service), azureblob.ContainerName(s.Bucket))
	if err != nil {
		return nil, nil, err
	}
	b, err := azureblob.OpenBucket(ctx, client, nil)
	return b, nil, err
}

// connectionSecrets returns the secret parts of a connection string: the
// account's key, or a signature, which is part of URLs.
func connectionSecrets(text string) []string {
	var hide []string
	for part := range strings.SplitSeq(text, ";") {
		name, value, _ := strings.Cut(part, "=")
		switch strings.ToLower(name) {
		case "accountkey":
			hide = append(hide, value)
		case "sharedaccesssignature":
			hide = append(hide, strings.TrimPrefix(value, "?"))
			for pair := range strings.SplitSeq(value, "&") {
				if sig, ok := strings.CutPrefix(strings.TrimPrefix(pair, "?"), "sig="); ok {
					hide = append(hide, encodings(sig)...)
				}
			}
		}
	}
	return hide
}

// encodings returns a part of a URL as it is given and, where they differ, as
// the client writes it and decoded.
func encodings(given string) []string {
	list := []string{given}
	if meant, err := url.QueryUnescape(given); err == nil {
		list = append(list, url.QueryEscape(meant), meant)
	}
	return slices.Compact(list)
}

// redactable drops strings that are too short to be a secret: redacting them
// would make errors unreadable.
func redactable(secrets []string) []string {
	var list []string
	for _, s := range secrets {
		if len(s) >= 8 {
			list = append(list, s)
		}
	}
	return list
}

// parseSettings parses lines of "name = value", as in Amazon's credentials
// files. It ignores sections and comments.
func parseSettings(text string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(line, "=")
		if ok && !strings.HasPrefix(strings.TrimSpace(line), "#") {
			all[strings.ToLower(strings.TrimSpace(name))] = strings.TrimSpace(value)
		}
	}
	return all
}
