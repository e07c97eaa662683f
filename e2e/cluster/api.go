package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

// api is a client of the API server with the administrator's rights. It has only
// what the start of a cluster needs; tests use the real client.
type api struct {
	client *http.Client
	url    string
}

// insecure is a client for parts that create their own certificates, on a
// loopback address.
var insecure = &http.Client{
	Timeout: 2 * time.Second,
	Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
	},
}

func newAPI(l layout) (*api, error) {
	pair, err := tls.LoadX509KeyPair(l.Path("pki/admin.crt"), l.Path("pki/admin.key"))
	if err != nil {
		return nil, fmt.Errorf("read the administrator's certificate: %w", err)
	}
	pem, err := os.ReadFile(l.Path("pki/ca.crt"))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, errors.New("the authority's certificate is invalid")
	}
	return &api{
		url: l.URL(),
		client: &http.Client{
			Timeout: 5 * time.Second,
			Transport: &http.Transport{
				// A proxy in the environment cannot reach this address.
				Proxy:             nil,
				DisableKeepAlives: true,
				TLSClientConfig:   &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: pool},
			},
		},
	}, nil
}

// get decodes the object at path into v, if v is not nil.
func (a *api) get(ctx context.Context, path string, v any) error {
	body, err := fetch(ctx, a.client, a.url+path)
	if err != nil || v == nil {
		return err
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// probe returns an error unless a URL answers with 200.
func probe(ctx context.Context, client *http.Client, url string) error {
	_, err := fetch(ctx, client, url)
	return err
}

func fetch(ctx context.Context, client *http.Client, url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", url, err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s: %s", url, response.Status, lastLines(body, 5))
	}
	return body, nil
}

// node has the fields of a node that show whether pods can run on it.
type node struct {
	Spec struct {
		Taints []struct {
			Key string `json:"key"`
		} `json:"taints"`
	} `json:"spec"`
	Status struct {
		Conditions []struct {
			Type, Status, Message string
		} `json:"conditions"`
	} `json:"status"`
}

// schedulable returns why pods cannot run on the node, or nil if they can.
func (n node) schedulable() error {
	ready := errors.New("the node has no condition yet")
	for _, c := range n.Status.Conditions {
		if c.Type != "Ready" {
			continue
		}
		ready = nil
		if c.Status != "True" {
			ready = fmt.Errorf("the node is not ready: %s", c.Message)
		}
	}
	if ready == nil && len(n.Spec.Taints) > 0 {
		return fmt.Errorf("the node is tainted: %s", n.Spec.Taints[0].Key)
	}
	return ready
}

func nodeReady(ctx context.Context, l layout) error {
	api, err := newAPI(l)
	if err != nil {
		return err
	}
	var n node
	if err := api.get(ctx, "/api/v1/nodes/"+nodeName, &n); err != nil {
		return err
	}
	return n.schedulable()
}

// pods has the fields of a list of pods that identify them.
type pods struct {
	Items []struct {
		Metadata struct {
			UID string `json:"uid"`
		} `json:"metadata"`
	} `json:"items"`
}

// podsReady returns an error unless the kubelet knows the node's pods: after its
// start it reports for a while that they do not exist.
func podsReady(ctx context.Context, l layout) error {
	server, err := newAPI(l)
	if err != nil {
		return err
	}
	kubelet := &api{client: server.client, url: "https://" + l.Gateway() + ":10250"}
	var want, got pods
	if err := server.get(ctx, "/api/v1/pods?fieldSelector=spec.nodeName%3D"+nodeName, &want); err != nil {
		return err
	}
	if err := kubelet.get(ctx, "/pods", &got); err != nil {
		return err
	}
	known := map[string]bool{}
	for _, pod := range got.Items {
		known[pod.Metadata.UID] = true
	}
	for _, pod := range want.Items {
		if !known[pod.Metadata.UID] {
			return fmt.Errorf("the kubelet does not know the pod %s yet", pod.Metadata.UID)
		}
	}
	return nil
}

// accountReady returns an error unless a pod can be created in the namespace
// default: the controllers create its service account and its certificate.
func accountReady(ctx context.Context, l layout) error {
	api, err := newAPI(l)
	if err != nil {
		return err
	}
	if err := api.get(ctx, "/api/v1/namespaces/default/serviceaccounts/default", nil); err != nil {
		return err
	}
	return api.get(ctx, "/api/v1/namespaces/default/configmaps/kube-root-ca.crt", nil)
}
