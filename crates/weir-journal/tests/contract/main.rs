//! The contract of a journal. The cases in `cases` apply to every implementation, which they use
//! only through an [`Opener`]. Behavior specific to the local one (when it writes) is in `local`.
//!
//! Every case ends with balanced books: [`Opener::close`] asserts it.

#[path = "../support/mod.rs"]
mod support;

mod cases;
mod holding;
mod local;
mod owed;
mod parts;
mod restart;

use std::sync::Arc;

use weir_journal::{Journal, JournalConfig};
use weir_testkit::FaultyDisk;

/// Opens journals on the same storage.
pub(crate) trait Opener {
    /// Opens the storage; again after [`Self::close`] or [`Self::crash`].
    fn open_with(&self, config: JournalConfig) -> Journal;

    /// The process ends normally.
    fn close(&self, journal: Journal) {
        support::assert_books_balance(&journal);
        journal.shutdown();
    }

    /// The machine stops; what was not confirmed may be lost.
    fn crash(&mut self, journal: Journal);

    fn open(&self) -> Journal {
        self.open_with(support::config("/data/journal"))
    }
}

/// The local implementation on an in-memory disk.
#[derive(Debug, Default)]
pub(crate) struct Local {
    pub(crate) disk: FaultyDisk,
    crashes: u64,
}

impl Opener for Local {
    fn open_with(&self, config: JournalConfig) -> Journal {
        let journal = support::open(config, Arc::new(self.disk.clone()));
        journal.register_source("app");
        journal
    }

    fn crash(&mut self, journal: Journal) {
        support::assert_books_balance(&journal);
        self.crashes += 1;
        self.disk = self.disk.crash(self.crashes);
    }
}

/// Creates a test of every case for the local implementation.
macro_rules! contract {
    ($($module:ident :: $case:ident)*) => {
        $(#[test] fn $case() { $module::$case(&mut Local::default()); })*
    };
}

contract! {
    cases::what_is_appended_is_taken_in_order_and_settled
    cases::a_taken_batch_stays_in_flight_until_it_is_acknowledged
    cases::a_position_moves_over_a_prefix_only
    cases::reading_is_fair_between_a_noisy_and_a_quiet_stream
    cases::a_busy_stream_is_passed_over
    cases::a_window_bounds_what_is_taken
    cases::no_stream_holds_more_than_a_quarter_while_others_wait
    cases::block_refuses_only_what_feeds_the_full_destination_and_wakes_on_room
    cases::drop_oldest_discards_exactly_what_it_counts_and_never_the_quiet
    cases::a_slow_subscriber_gets_an_exact_gap
    cases::several_batches_are_taken_together_or_not_at_all
    cases::a_new_destination_starts_at_now
    cases::batches_without_records_move_positions
    cases::small_waiting_batches_are_merged
    cases::batches_that_arrived_apart_are_merged_only_in_a_backlog
    cases::merging_works_beside_destinations_that_get_nothing
    cases::every_outcome_is_in_the_book
    cases::a_closed_stream_folds_into_its_source
    cases::a_closed_journal_refuses_and_drains
    cases::ready_waits_for_bytes_or_age_or_the_end
    cases::a_source_that_is_replaced_continues_after_what_was_appended
    cases::what_a_removed_source_has_read_survives_a_crash
    holding::what_is_held_takes_no_room_and_is_in_flight_until_it_is_settled
    holding::what_is_held_stays_for_those_that_still_need_it
    holding::what_was_held_comes_again_after_a_restart
    holding::a_trickle_that_is_held_costs_one_batch_for_each_stream
    holding::what_two_parts_hold_is_settled_one_after_the_other
    holding::what_is_held_is_never_discarded_to_make_room
    holding::what_only_a_destination_holds_is_asked_for_when_its_file_is_gone
    holding::a_stream_that_is_held_is_not_forgotten
    holding::records_that_go_elsewhere_are_no_burden_behind_what_is_held
    restart::a_book_goes_back_with_its_position
    parts::the_books_of_parts_go_back_with_the_position
    parts::streams_are_parts_until_they_end
    restart::batches_that_are_cut_differently_are_skipped_record_by_record
    restart::two_destinations_skip_what_each_has
    restart::a_backlog_from_before_holds_no_source_back
    restart::epochs_are_kept_apart
    restart::a_source_that_cannot_repeat_itself_learns_the_latest_epoch
    restart::recovered_frames_are_claimed_and_not_read_twice
    restart::recovered_frames_behind_a_hole_are_read_again
    restart::frames_of_unclaimed_streams_are_released
    restart::a_released_frame_waits_for_its_destination_over_any_number_of_restarts
    restart::frames_behind_a_hole_are_delivered_when_their_file_is_gone
    restart::frames_for_a_missing_destination_outlive_their_stream
    restart::streams_end_when_a_missing_destination_is_dropped
    restart::a_closed_stream_stays_until_its_recovered_frames_are_delivered
    restart::a_frame_that_was_partly_committed_is_delivered_in_part
    restart::a_deleted_file_survives_once_it_is_persisted
    restart::a_removed_destination_keeps_its_frames_until_it_is_dropped
    restart::a_destination_that_comes_back_goes_on_where_it_stopped
    restart::what_a_missing_destination_cannot_get_any_more_is_counted
    restart::what_a_connection_was_told_is_there_after_a_crash
    restart::a_forgotten_stream_does_not_come_back
    restart::the_state_of_a_place_is_the_last_one_given_for_it
    restart::space_that_was_given_back_is_no_loss_once_its_stream_has_ended
    restart::frames_of_a_content_that_was_read_again_as_another_one_stay_dead
    restart::frames_that_were_to_be_read_again_stay_dead_when_their_file_is_cut
    owed::what_a_destination_is_owed_of_a_file_that_is_gone_is_counted
    owed::of_a_file_that_was_cut_only_what_is_gone_is_counted
    owed::what_cannot_be_read_again_after_all_is_counted
    owed::what_is_owed_does_not_depend_on_where_batches_are_cut
    owed::what_was_lost_of_an_earlier_content_is_lost_once
    owed::a_new_destination_is_owed_what_is_read_again_for_it
    owed::where_a_content_began_is_known_before_anybody_has_read_it
    owed::what_is_lost_behind_what_waits_stays_lost
    owed::what_is_lost_between_what_waits_stays_lost
    owed::the_furthest_place_is_stated_when_frames_overlap
}
