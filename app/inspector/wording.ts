// Descriptions of the states of each machine, for readers who wonder why nothing happens.

export const SUMMARIES = {
  run: 'A run is a pull request for data: it works on a branch, is judged there, and merges or leaves no trace.',
  draft: 'The draft of a pipeline: what its files are, compared with what its runs execute.',
  trigger: 'A trigger requests runs of a pipeline by itself, no more often than its cooldown allows.',
}

export const DESCRIPTIONS: Record<keyof typeof SUMMARIES, Record<string, string>> = {
  run: {
    pending: 'Requested, and not executed yet. Its code is fixed already.',
    'pending.waiting':
      "In the queue: for its turn among the pipeline's runs, and for a runner with a free place.",
    'pending.starting': 'An attempt is open, and a runner has been asked to execute it.',
    running: 'A runner has accepted an attempt.',
    'running.waiting': "Between two attempts. The pipeline's turn is kept.",
    'running.rendering': 'The runner reads the pinned files and renders the template.',
    'running.executing': "The SQL or Python is executed, and its result written to the run's branch.",
    'running.testing': 'The quality tests judge the branch.',
    'running.merging': 'The branch is merged into main, in the transaction that makes the run a success.',
    success: 'Merged, or there was nothing to change. Final.',
    failed: 'It left no trace on main. Final.',
    cancelled: 'Somebody or something ended it. Final.',
  },
  draft: {
    unpublished: 'Never published. Triggers and schedules cannot run it; a manual run executes the draft.',
    clean: 'The files are those of the latest publish.',
    dirty: 'Files have been written since the latest publish; runs still execute the published version.',
    deleted: 'The pipeline has been deleted. Final.',
  },
  trigger: {
    armed: 'The next event it hears fires it.',
    cooling: 'It has fired, and ignores events until its cooldown is over.',
    disabled: 'It hears nothing until it is enabled.',
  },
}
