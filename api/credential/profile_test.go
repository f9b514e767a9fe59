package credential

import (
	"strings"
	"testing"
)

func TestProfilesAreReadAsAWSReadsThem(t *testing.T) {
	for name, c := range map[string]struct {
		text, profile string
		want          keys
	}{
		"the default": {
			"[default]\naws_access_key_id = A\naws_secret_access_key = S\n", "", keys{"A", "S", ""},
		},
		"named": {
			"[default]\naws_access_key_id=x\naws_secret_access_key=y\n[ two ]\naws_access_key_id=A\naws_secret_access_key=S\naws_session_token=T", "two",
			keys{"A", "S", "T"},
		},
		"comments, blanks and other settings": {
			"# c\n; c\n\n[default] # of all\nregion = eu-west-1\naws_access_key_id = A # mine\naws_secret_access_key = S#x;y\n", "", keys{"A", "S#x;y", ""},
		},
		"with equal signs": {
			"[default]\naws_access_key_id = A\naws_secret_access_key = S/==\naws_session_token=T==\n", "", keys{"A", "S/==", "T=="},
		},
		"in capitals": {
			"[default]\nAWS_ACCESS_KEY_ID = A\nAws_Secret_Access_Key = S\n", "", keys{"A", "S", ""},
		},
		"with line ends of Windows": {
			"[default]\r\naws_access_key_id = A\r\naws_secret_access_key = S\r\n", "", keys{"A", "S", ""},
		},
		"in two parts": {
			"[default]\naws_access_key_id = A\n[x]\n[default]\naws_secret_access_key = S\n", "", keys{"A", "S", ""},
		},
		"nested settings": {
			"[default]\ns3 =\n  max = 1\n  alone\naws_access_key_id = A\naws_secret_access_key = S\n", "", keys{"A", "S", ""},
		},
		"nonsense in other sections": {
			"nonsense\n[x]\nnonsense\n[default]\naws_access_key_id = A\naws_secret_access_key = S\n", "default", keys{"A", "S", ""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := profile([]byte(c.text), c.profile)
			if err != nil || got != c.want {
				t.Errorf("got %+v, %v; want %+v", got, err, c.want)
			}
		})
	}
}

func FuzzProfile(f *testing.F) {
	f.Add("[default]\naws_access_key_id = A\naws_secret_access_key = S\n", "")
	f.Add("[a]\n[b\nx", "b")
	f.Add("[default]\n aws_session_token = #\n", "default")
	f.Fuzz(func(t *testing.T, text, name string) {
		k, err := profile([]byte(text), name)
		if err != nil {
			return
		}
		if k.id == "" || k.secret == "" {
			t.Errorf("keys are missing and nothing is said: %+v", k)
		}
		if strings.ContainsAny(k.id+k.secret+k.token, "\r\n\x00") {
			t.Errorf("keys that break a header: %+v", k)
		}
	})
}
