// Package health shows what tools that know nothing of TrainingJobs make of them, by the tools' own code. The jobs are
// those of jobs.json, as the operator describes them (tests/unit/job/planner/tool_status_test.cc).
package health

import (
	"encoding/json"
	"os"
	"testing"

	helm "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/yaml"
)

// For each job of jobs.json, what kstatus says.
var wanted = map[string]status.Status{
	"unseen":       status.InProgressStatus,
	"pending":      status.InProgressStatus,
	"starting":     status.InProgressStatus,
	"running":      status.CurrentStatus,
	"recovering":   status.CurrentStatus,
	"restarting":   status.InProgressStatus,
	"launcherLost": status.InProgressStatus,
	"paused":       status.CurrentStatus,
	"changed":      status.InProgressStatus,
	"suspending":   status.InProgressStatus,
	"suspended":    status.CurrentStatus,
	"resumed":      status.InProgressStatus,
	"succeeded":    status.CurrentStatus,
	"failed":       status.FailedStatus,
	"refused":      status.FailedStatus,
	"correcting":   status.InProgressStatus,
	"corrected":    status.InProgressStatus,
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// The status that the API server gives a job which the operator has not seen. Null: none.
func firstStatus(t *testing.T) any {
	t.Helper()
	var crd unstructured.Unstructured
	if err := yaml.Unmarshal(read(t, "../../crds/ringmaster.dev_trainingjobs.yaml"), &crd.Object); err != nil {
		t.Fatal(err)
	}
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	value, _, _ := unstructured.NestedFieldNoCopy(versions[0].(map[string]any),
		"schema", "openAPIV3Schema", "properties", "status", "default")
	return value
}

func jobs(t *testing.T) map[string]*unstructured.Unstructured {
	t.Helper()
	documents := map[string]map[string]any{}
	if err := json.Unmarshal(read(t, "jobs.json"), &documents); err != nil {
		t.Fatal(err)
	}
	jobs := map[string]*unstructured.Unstructured{}
	for name, document := range documents {
		if document["status"] == nil {
			document["status"] = firstStatus(t)
		}
		text, err := json.Marshal(document)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		job := &unstructured.Unstructured{}
		if err := job.UnmarshalJSON(text); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, ok := wanted[name]; !ok {
			t.Errorf("%s: nothing is said here of this job", name)
		}
		jobs[name] = job
	}
	for name := range wanted {
		if jobs[name] == nil {
			t.Errorf("%s: jobs.json has no such job", name)
		}
	}
	return jobs
}

func TestKstatusKnowsWhetherAJobIsThere(t *testing.T) {
	for name, job := range jobs(t) {
		upstream, err := status.Compute(job)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		ofHelm, err := helm.Compute(job)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := upstream.Status; got != wanted[name] {
			t.Errorf("%s: kstatus says %s (%s), not %s", name, got, upstream.Message, wanted[name])
		}
		if got := status.Status(ofHelm.Status); got != wanted[name] {
			t.Errorf("%s: Helm's kstatus says %s (%s), not %s", name, got, ofHelm.Message, wanted[name])
		}
	}
}
