package health

import (
	"testing"

	lua "github.com/yuin/gopher-lua"
)

// For each job of jobs.json, what Argo CD says by deploy/argocd/health.lua.
var wantedOfArgo = map[string]string{
	"unseen":       "Progressing",
	"pending":      "Progressing",
	"starting":     "Progressing",
	"running":      "Healthy",
	"recovering":   "Healthy",
	"restarting":   "Progressing",
	"launcherLost": "Progressing",
	"paused":       "Healthy",
	"changed":      "Progressing",
	"suspending":   "Progressing",
	"suspended":    "Suspended",
	"resumed":      "Progressing",
	"succeeded":    "Healthy",
	"failed":       "Degraded",
	"refused":      "Degraded",
	"correcting":   "Progressing",
	"corrected":    "Progressing",
}

func toLua(state *lua.LState, value any) lua.LValue {
	switch value := value.(type) {
	case map[string]any:
		table := state.NewTable()
		for key, field := range value {
			table.RawSetString(key, toLua(state, field))
		}
		return table
	case []any:
		table := state.NewTable()
		for _, item := range value {
			table.Append(toLua(state, item))
		}
		return table
	case string:
		return lua.LString(value)
	case bool:
		return lua.LBool(value)
	case int64:
		return lua.LNumber(value)
	case float64:
		return lua.LNumber(value)
	}
	return lua.LNil
}

// As Argo CD runs it: gopher-lua without its libraries, the object in `obj`.
func TestArgoCDKnowsHowAJobIs(t *testing.T) {
	for name, job := range jobs(t) {
		state := lua.NewState(lua.Options{SkipOpenLibs: true})
		defer state.Close()
		for library, open := range map[string]lua.LGFunction{lua.LoadLibName: lua.OpenPackage, lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable} {
			state.Push(state.NewFunction(open))
			state.Push(lua.LString(library))
			state.Call(1, 0)
		}
		state.SetGlobal("obj", toLua(state, job.Object))
		if err := state.DoFile("../../deploy/argocd/health.lua"); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		health, ok := state.Get(-1).(*lua.LTable)
		if !ok {
			t.Fatalf("%s: health.lua returns no table", name)
		}
		if got := health.RawGetString("status").String(); got != wantedOfArgo[name] {
			t.Errorf("%s: Argo CD says %s (%s), not %s", name, got, health.RawGetString("message"), wantedOfArgo[name])
		}
		if health.RawGetString("message").Type() != lua.LTString {
			t.Errorf("%s: Argo CD has nothing to say", name)
		}
	}
}
