//! What stands for each ref of a stream: a table in pages, which are there where refs are defined. So a
//! high ref costs a page, and not all that lies below it.

use silverback_model::gorilla::prefetch;
use silverback_model::{RefusedReason, SeriesId};
use silverback_storage::message::{CachedRef, LabelSpan, RefUpdates};

/// Refs of one page: 8 KiB.
const PAGE: usize = 256;

/// How many routes ahead one is brought near: eight cache lines.
const AHEAD: usize = 16;

/// What stands for a ref.
#[derive(Debug, Clone, Copy)]
pub struct SeriesRoute {
    /// The routing key.
    pub id: SeriesId,
    /// Where its labels are.
    pub labels: LabelSpan,
    /// A hint where its owner has it.
    pub cached: CachedRef,
    /// Whether there is such a series.
    pub state: RouteState,
}
const _: () = assert!(size_of::<SeriesRoute>() <= 32);

/// What became of a ref's definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteState {
    /// None came.
    Undefined,
    /// It is a series.
    Series,
    /// Its labels were refused, and so are its samples.
    Refused(RefusedReason),
}

const UNDEFINED: SeriesRoute = SeriesRoute {
    id: SeriesId(0),
    labels: LabelSpan::NOWHERE,
    cached: CachedRef::NONE,
    state: RouteState::Undefined,
};

impl SeriesRoute {
    /// Of a ref whose labels are refused.
    pub(crate) const fn refused(reason: RefusedReason) -> Self {
        Self { state: RouteState::Refused(reason), ..UNDEFINED }
    }
}

/// The routes of one stream by ref.
#[derive(Debug, Default)]
pub struct Routes {
    pages: Vec<Option<Box<[SeriesRoute; PAGE]>>>,
    pages_held: usize,
}

impl Routes {
    /// The route of a ref; none, or an undefined one, where no definition came. Streams mostly name refs in order: what
    /// comes soon is brought near.
    #[inline]
    pub fn get(&self, stream_ref: u32) -> Option<&SeriesRoute> {
        let page = self.pages.get(stream_ref as usize / PAGE)?.as_ref()?;
        prefetch(&page[(stream_ref as usize + AHEAD) % PAGE]);
        Some(&page[stream_ref as usize % PAGE])
    }

    /// The memory of the table once this ref has a route.
    pub(crate) fn bytes_with(&self, stream_ref: u32) -> usize {
        let place = stream_ref as usize / PAGE;
        let is_held = self.pages.get(place).is_some_and(Option::is_some);
        let pages_held = self.pages_held + usize::from(!is_held);
        let places = self.pages.capacity().max(places_for(place));
        pages_held * size_of::<[SeriesRoute; PAGE]>() + places * size_of::<Option<Box<[SeriesRoute; PAGE]>>>()
    }

    /// Sets the route of a ref.
    pub(crate) fn set(&mut self, stream_ref: u32, route: SeriesRoute) {
        let place = stream_ref as usize / PAGE;
        if self.pages.len() <= place {
            self.pages.reserve_exact(places_for(place) - self.pages.len());
            self.pages.resize_with(place + 1, || None);
        }
        let page = self.pages[place].get_or_insert_with(|| {
            self.pages_held += 1;
            Box::new([UNDEFINED; PAGE])
        });
        page[stream_ref as usize % PAGE] = route;
    }

    /// Caches where series are by now.
    pub(crate) fn take_ref_updates(&mut self, updates: &RefUpdates) {
        for (stream_ref, cached) in updates.iter() {
            let page = self.pages.get_mut(stream_ref as usize / PAGE).and_then(Option::as_mut);
            if let Some(page) = page {
                page[stream_ref as usize % PAGE].cached = cached;
            }
        }
    }
}

/// Places that the list has so that this one is in it.
fn places_for(place: usize) -> usize {
    (place + 1).next_power_of_two()
}

#[cfg(test)]
mod tests {
    use super::*;
    use silverback_model::SeriesRef;
    use silverback_model::limits::STREAM_REFS_MAX;

    fn refused(reason: RefusedReason) -> RouteState {
        RouteState::Refused(reason)
    }

    #[test]
    fn the_highest_ref_takes_a_page_and_no_more_than_was_told_before() {
        let mut routes = Routes::default();
        let high = STREAM_REFS_MAX as u32 - 1;
        let told = routes.bytes_with(high);
        assert!(told < 64 << 10, "{told} bytes");
        routes.set(high, SeriesRoute::refused(RefusedReason::MissingName));
        assert_eq!((routes.bytes_with(high), routes.bytes_with(high - 1)), (told, told));
        assert_eq!(routes.get(high).unwrap().state, refused(RefusedReason::MissingName));
        assert_eq!(routes.get(high - 1).unwrap().state, RouteState::Undefined);
        assert!(routes.get(0).is_none() && routes.get(u32::MAX).is_none());
    }

    #[test]
    fn refs_one_after_the_other_take_what_their_routes_take() {
        let mut routes = Routes::default();
        for stream_ref in 0..10_000 {
            let told = routes.bytes_with(stream_ref);
            routes.set(stream_ref, SeriesRoute::refused(RefusedReason::LabelTooLong));
            assert_eq!(routes.bytes_with(stream_ref), told);
        }
        assert!(routes.bytes_with(9_999) < 10_000 * size_of::<SeriesRoute>() * 21 / 20);
        assert!((0..10_000).all(|at| routes.get(at).unwrap().state == refused(RefusedReason::LabelTooLong)));
    }

    #[test]
    fn where_a_series_is_stands_beside_its_route() {
        let route = SeriesRoute { cached: CachedRef::NOT_YET, state: RouteState::Series, ..UNDEFINED };
        let mut routes = Routes::default();
        routes.set(3, route);
        let mut updates = RefUpdates::default();
        // What no route is of is passed over.
        for (stream_ref, at) in [(3, 7), (PAGE as u32, 8), (u32::MAX, 9)] {
            updates.push(stream_ref, CachedRef::of(SeriesRef(at)));
        }
        routes.take_ref_updates(&updates);
        assert_eq!(routes.get(3).unwrap().cached, CachedRef::of(SeriesRef(7)));
        assert!(routes.get(PAGE as u32).is_none());
    }
}
