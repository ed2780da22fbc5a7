package garbagecollector

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/kit/kittest"
)

// withoutWidgets makes the server answer the collector as one that does not have the kind.
func withoutWidgets(r *kittest.Request) *kittest.Reaction {
	if r.User == Name && r.Resource.Resource == "widgets" {
		return kittest.Refuse(http.StatusNotFound, "404 page not found")
	}
	return nil
}

// An owner waited for a dependent whose CustomResourceDefinition or APIService is gone: nothing can show its end any more.
func TestDependentsOfAKindThatIsGoneHoldNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		l.start()
		early, late := configMap("early"), configMap("late")
		l.add(early, late)
		ofEarly, ofLate := widget("of-early", blocking(by(early))), widget("of-late", blocking(by(late)))
		ofEarly.SetFinalizers([]string{"example.com/slow"})
		l.add(ofEarly, ofLate)
		l.Settle()
		l.deleteIn(metav1.DeletePropagationForeground, early)
		l.Settle()
		l.kept(early)
		l.Serve(widgetKind.GroupVersion().WithResource("widgets"), false)
		time.Sleep(resyncWait)
		l.gone(early)
		l.deleteIn(metav1.DeletePropagationForeground, late)
		l.Settle()
		l.gone(late)

		// The kind comes back, and with it the dependents, which have no owner now.
		l.kept(ofLate)
		l.Serve(widgetKind.GroupVersion().WithResource("widgets"), true)
		time.Sleep(resyncWait)
		l.gone(ofLate)
		l.noErrors()
	})
}

// A kind was gone for a while, and meanwhile an owner of that kind went, which no watch has shown.
func TestAnOwnerThatWentWhileItsKindWasGoneIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		gone, stays := widget("gone"), widget("stays")
		l.add(gone, stays)
		ofGone, ofStays := configMap("of-gone", by(gone)), configMap("of-stays", by(stays))
		l.add(ofGone, ofStays)
		l.start()
		l.React(withoutWidgets)
		l.Serve(widgetKind.GroupVersion().WithResource("widgets"), false)
		time.Sleep(resyncWait)
		l.Remove(t, gone)
		time.Sleep(time.Hour)
		l.kept(ofGone, ofStays)
		l.Unreact()
		l.Serve(widgetKind.GroupVersion().WithResource("widgets"), true)
		time.Sleep(time.Hour)
		l.gone(ofGone)
		l.kept(ofStays)
		l.noErrors()
	})
}

// The cluster's data is restored from a backup while the collector runs: an owner that was deleted is there again, with the
// same UID, and its dependents are shown before it.
func TestAnOwnerThatABackupBringsBackKeepsItsDependents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		l.start()
		w := widget("w")
		l.add(w)
		c := configMap("c", by(w))
		l.add(c)
		l.Settle()
		w, c = w.DeepCopy(), c.DeepCopy()
		l.Delete(t, w)
		l.Settle()
		l.gone(c)
		time.Sleep(time.Hour)
		l.FreezeWatch(widgetKind, true)
		l.add(w, c)
		l.Settle()
		l.kept(c)
		l.FreezeWatch(widgetKind, false)
		l.Settle()
		l.kept(w, c)
		l.Delete(t, w)
		l.Settle()
		l.gone(c)
		l.noErrors()
	})
}

// The server cannot be asked for the owner any more, and its dependent cannot be deleted for a long time.
func TestWhatIsLeftOfAnOwnerThatWentBeforeItsKindIsCollectedInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		w := widget("w")
		l.add(w)
		c := configMap("c", by(w))
		l.add(c)
		l.start()
		refuse := func(r *kittest.Request) *kittest.Reaction {
			if r.User == Name && r.Verb == "delete" {
				return kittest.Refuse(http.StatusForbidden, "a webhook is down")
			}
			return nil
		}
		l.React(refuse)
		l.Delete(t, w)
		l.Settle()
		l.React(withoutWidgets)
		l.Serve(widgetKind.GroupVersion().WithResource("widgets"), false)
		time.Sleep(time.Hour)
		l.kept(c)
		l.Unreact()
		l.React(withoutWidgets)
		time.Sleep(time.Hour)
		l.gone(c)
	})
}
