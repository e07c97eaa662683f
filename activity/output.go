package activity

import "encoding/json"

// WithoutOutput returns the event without what a container printed. Data that cannot
// be read is removed.
func (e Event) WithoutOutput() Event {
	hide := containerOutput[e.Type]
	if hide == nil || len(e.Data) == 0 {
		return e
	}
	data := NewData(e.Type)
	if err := json.Unmarshal(e.Data, data); err != nil {
		e.Data = nil // of another version: it cannot be known what is in it
		return e
	}
	hide(data)
	e.Data = Data(data)
	return e
}

// containerOutput removes the output of containers from the data of the types of
// events that have any.
var containerOutput = map[Type]func(any){
	ContainerDied: func(data any) {
		if d, ok := data.(*ContainerDiedData); ok {
			d.Output = nil
		}
	},
	ContainerUnhealthy: func(data any) {
		if d, ok := data.(*ContainerUnhealthyData); ok {
			d.Output, d.Check = nil, nil
		}
	},
}
