package snapshot

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

	"github.com/hostler/hostler/workload"
)

// providers open the sinks that are not a folder. Each gets the secret that
// the sink's credentials name, or "" for the provider's standard chain, and
// returns what of it must never be shown.
var providers = map[workload.SinkType]func(ctx context.Context, s workload.Sink, secret string) (*blob.Bucket, []string, error){
	workload.SinkS3:    openS3,
	workload.SinkGCS:   openGCS,
	workload.SinkAzure: openAzure,
}

// openS3 takes keys in the form of Amazon's credentials file.
func openS3(ctx context.Context, s workload.Sink, secret string) (*blob.Bucket, []string, error) {
	var options []func(*config.LoadOptions) error
	var hide []string
	if secret != "" {
		k := parseSettings(secret)
		id, key, token := k["aws_access_key_id"], k["aws_secret_access_key"], k["aws_session_token"]
		if id == "" || key == "" {
			return nil, nil, fmt.Errorf("%w: they have no aws_access_key_id and aws_secret_access_key", ErrCredentials)
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
		c.Region = "us-east-1" // what services of other makers take
	}
	client := s3.NewFromConfig(c, func(o *s3.Options) {
		o.DisableLogOutputChecksumValidationSkipped = true // ours covers the whole
		if s.Endpoint != "" {
			// A service under one address seldom has a name for each bucket.
			o.BaseEndpoint, o.UsePathStyle = &s.Endpoint, true
		}
	})
	b, err := s3blob.OpenBucket(ctx, client, s.Bucket, &s3blob.Options{
		RequestChecksumCalculation: c.RequestChecksumCalculation,
	})
	return b, redactable(hide), err
}

// gcsScope is what a key may do.
const gcsScope = "https://www.googleapis.com/auth/devstorage.read_write"

// gcsAttempts is how often a call is made whose answer is that it should be
// repeated: for some fifteen seconds, as the other providers' clients do.
const gcsAttempts = 5

// openGCS takes the key of a service account, as JSON.
func openGCS(ctx context.Context, s workload.Sink, secret string) (*blob.Bucket, []string, error) {
	var tokens gcp.TokenSource
	var hide []string
	if secret != "" {
		key, err := google.JWTConfigFromJSON([]byte(secret), gcsScope)
		if err != nil {
			return nil, nil, fmt.Errorf("%w: they are no key of a service account", ErrCredentials)
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
	// The client would look for credentials of the machine besides, and would
	// repeat a call for as long as its context lives.
	b, err := gcsblob.OpenBucket(ctx, client, s.Bucket, &gcsblob.Options{
		ClientOptions: []option.ClientOption{option.WithoutAuthentication()},
	})
	var service *storage.Client
	if err == nil && b.As(&service) {
		service.SetRetry(storage.WithMaxAttempts(gcsAttempts))
	}
	return b, redactable(hide), err
}

// openAzure takes a connection string.
func openAzure(ctx context.Context, s workload.Sink, secret string) (*blob.Bucket, []string, error) {
	if secret != "" {
		secret = strings.TrimSpace(secret)
		client, err := container.NewClientFromConnectionString(secret, s.Bucket, nil)
		if err != nil {
			return nil, nil, fmt.Errorf("%w: they are no connection string", ErrCredentials)
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

// connectionSecrets are the parts of a connection string that are secret: the
// account's key, or a signature, which is part of addresses.
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

// encodings are a part of an address as it is given and, where that is another,
// as the client writes it and as it is meant.
func encodings(given string) []string {
	list := []string{given}
	if meant, err := url.QueryUnescape(given); err == nil {
		list = append(list, url.QueryEscape(meant), meant)
	}
	return slices.Compact(list)
}

// redactable leaves out what is too short to be a secret: to hide it would make
// errors unreadable.
func redactable(secrets []string) []string {
	var list []string
	for _, s := range secrets {
		if len(s) >= 8 {
			list = append(list, s)
		}
	}
	return list
}
