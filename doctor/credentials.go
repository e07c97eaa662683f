package doctor

import "context"

// credentialSources reports files of keys and bindings that cannot be used, and a
// database whose keys cannot be read.
func (v *examination) credentialSources(context.Context) error {
	if v.CredentialProblems == nil {
		return nil
	}
	for _, problem := range v.CredentialProblems() {
		v.addFinding(Finding{
			Severity: Error, Message: problem,
			Hint: "correct the file: it is read each second, and needs no restart; until then what was read last stays in use",
		})
	}
	return nil
}
