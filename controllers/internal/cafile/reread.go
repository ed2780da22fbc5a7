package cafile

import (
	"context"
	"time"

	"k8s.io/klog/v2"

	"orrery/kit"
)

// rereadPeriod is how often the file is read again.
const rereadPeriod = 30 * time.Second

// file is the only key of the loop.
type file struct{}

// Follow builds the loop "reread" of a controller: it reads the file again and calls changed after each new bundle.
func Follow(cc kit.ControllerContext, f *File, changed func()) error {
	loop := kit.Func[file](func(ctx context.Context, _ file) (kit.Result, error) {
		isNew, err := f.Reread()
		if err != nil {
			return kit.Done, kit.Terminal(err) // the old bundle stays until the next period
		}
		if isNew {
			klog.FromContext(ctx).Info("The CA file has changed", "file", f.path)
			changed()
		}
		return kit.Done, nil
	})
	return kit.NewController(cc, loop).Loop("reread").Watch(kit.Every(rereadPeriod, file{})).Complete()
}
