import { makeDiskFloor } from '../../lake/disk-floor.ts'
import type { StoreSettings } from '../config/config.ts'
import { type Clock, systemClock } from '../core/clock.ts'
import type { ObjectStore } from './port.ts'

/**
 * Opens the store that the settings name. Rejects with StoreUnavailable, whose message is one clear line. An implementation is
 * loaded only when it is chosen: the S3 client alone takes tens of megabytes.
 */
export async function openObjectStore(
  settings: StoreSettings,
  clock: Clock = systemClock,
): Promise<ObjectStore> {
  switch (settings.kind) {
    case 'disk':
      return (await import('./disk.ts')).openDiskStore(
        settings.root,
        clock,
        undefined,
        makeDiskFloor(settings.root, settings.floorBytes ?? null),
      )
    case 's3':
      return (await import('./s3.ts')).openS3Store(settings)
  }
}
