import { Empty, Page } from '../../design/surfaces.tsx'

export default function Planned() {
  return (
    <Page title="table">
      <Empty icon="more" title="This page is not built yet" />
    </Page>
  )
}
