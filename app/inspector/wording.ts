// Descriptions of the states of each machine, for readers who wonder why nothing happens.

export const SUMMARIES = {
  run: 'A run is a pull request for data: it works on its own branch, quality tests check the branch, and the run merges it or discards it.',
  draft: 'The draft of a pipeline: its current files, compared with the published version that runs execute.',
  trigger: 'A trigger requests a run of its pipeline after an event, no more often than its cooldown allows.',
}

export const DESCRIPTIONS: Record<keyof typeof SUMMARIES, Record<string, string>> = {
  run: {
    pending: 'The run is requested and does not execute yet. Its code is already fixed.',
    'pending.waiting':
      'The run waits in the queue for older runs of its pipeline, and for a runner with a free slot.',
    'pending.starting': 'An attempt is open, and the dispatcher has sent it to a runner.',
    running: 'A runner has accepted an attempt.',
    'running.waiting': 'The run waits between two attempts. No later run of its pipeline starts meanwhile.',
    'running.rendering': 'The runner reads the pinned files and renders the template.',
    'running.executing': "The runner executes the SQL or Python, and writes the result to the run's branch.",
    'running.testing': 'The quality tests check the branch.',
    'running.review':
      'The tests have passed, and the run waits for a reviewer. Main is unchanged, and other runs of its pipeline execute.',
    'running.merging': 'The branch is merged into main, in the transaction that makes the run a success.',
    success: 'The branch is merged, or there was nothing to change. Final.',
    failed: 'The run failed, and main is unchanged. Final.',
    cancelled: 'The run was cancelled by a user or by the service. Final.',
  },
  draft: {
    unpublished:
      'The pipeline was never published. Triggers and schedules cannot run it; a manual run executes the draft.',
    clean: 'The files are those of the latest published version.',
    dirty: 'Files have changed since the latest publish; runs still execute the published version.',
    deleted: 'The pipeline is deleted. Final.',
  },
  trigger: {
    armed: 'The next matching event fires the trigger.',
    cooling: 'The trigger has fired, and ignores events until the end of its cooldown.',
    disabled: 'The trigger ignores all events until it is enabled.',
  },
}
